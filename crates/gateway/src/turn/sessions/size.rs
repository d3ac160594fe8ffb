use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message};

/// What a conversation takes in memory, as a number of ids: four bytes of text count as one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// All of it.
    pub whole: usize,
    /// What its last turn added.
    pub last: usize,
}

impl Size {
    /// Returns the size after a turn.
    #[must_use]
    pub fn after<'a>(self, ids: usize, new: impl Iterator<Item = &'a Message>) -> Size {
        let bytes: usize = new.map(|message| bytes_of_object(message.as_object())).sum();
        let last = ids + bytes / 4;
        Size { whole: self.whole + last, last }
    }
}

fn bytes_of_object(object: &Object) -> usize {
    object.iter().map(|(key, value)| key.len() + bytes_of(value)).sum()
}

fn bytes_of(value: &Json) -> usize {
    size_of::<Json>()
        + match value {
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(bytes_of).sum(),
            Json::Object(object) => bytes_of_object(object),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::{Json, Message, object};

    use super::Size;

    #[test]
    fn all_text_of_a_message_counts_whatever_a_template_writes_of_it() {
        let long = "a".repeat(4_000);
        let part: Json = object! { "type" => "text", "text" => long.as_str() }.into();
        for (key, value) in
            [("content", Json::from(long.as_str())), ("x", long.as_str().into()), ("y", vec![part].into())]
        {
            let message = Message::from_object(object! { "role" => "user", key => value }).unwrap();
            let first = Size::default().after(10, [&message].into_iter());
            assert!((1_010..1_200).contains(&first.whole) && first.last == first.whole, "{key}: {first:?}");
            let second = first.after(5, [].into_iter());
            assert_eq!((second.whole, second.last), (first.whole + 5, 5));
        }
    }
}
