use crate::Fault;

/// Where the messages of a request come from in its body.
#[derive(Debug, Default)]
pub struct Places {
    items: Items,
    /// The number of messages before them that are the instructions.
    pub instructions: usize,
}

#[derive(Debug, Default)]
enum Items {
    /// The input is one text.
    #[default]
    None,
    /// The input is a list of items, which make these messages. One without items comes from the answer before.
    Of(Vec<Option<MessageItems>>),
}

/// The items of a message.
#[derive(Clone, Debug, Default)]
pub struct MessageItems {
    pub content: usize,
    pub reasoning: usize,
    pub calls: Vec<usize>,
}

impl MessageItems {
    /// Returns the place of a message that begins with an item.
    pub fn of(item: usize) -> MessageItems {
        MessageItems { content: item, reasoning: item, calls: Vec::new() }
    }

    /// Returns the item of a field of the message, and the field of that item.
    fn find<'a>(&self, field: &'a str) -> (usize, &'a str) {
        if let Some(rest) = field.strip_prefix("tool_calls[")
            && let Some((index, rest)) = rest.split_once(']')
            && let Some(item) = index.parse().ok().and_then(|index: usize| self.calls.get(index))
        {
            let rest = rest.trim_start_matches('.');
            return match rest {
                "id" => (*item, "call_id"),
                "code_interpreter.input" => (*item, "code"),
                rest => (*item, rest.trim_start_matches("function").trim_start_matches('.')),
            };
        }
        match field {
            "tool_calls" => (self.calls.first().copied().unwrap_or(self.content), ""),
            "reasoning_content" => (self.reasoning, "content"),
            "tool_call_id" => (self.content, "call_id"),
            field => (self.content, field),
        }
    }
}

impl Places {
    pub fn of_text() -> Places {
        Places::default()
    }

    pub fn of_items(items: Vec<Option<MessageItems>>) -> Places {
        Places { items: Items::Of(items), instructions: 0 }
    }

    /// Names the place of an error in the client's own body.
    pub fn name(&self, mut fault: Fault) -> Fault {
        let Some(index) = fault.message_index.take() else {
            if let Some(param) = &fault.param
                && let Some(own) = own_name(param)
            {
                fault.message = fault.message.replacen(&**param, &own, 1).into();
                fault.param = Some(own.into());
            }
            return fault;
        };
        let field = fault.param.take().unwrap_or_default();
        let place = match (usize::try_from(index).unwrap_or(usize::MAX).checked_sub(self.instructions), &self.items) {
            (None, _) => "instructions".to_owned(),
            (Some(_), Items::None) => "input".to_owned(),
            (Some(index), Items::Of(places)) => {
                let Some(Some(place)) = places.get(index) else {
                    return Fault { param: Some("input".into()), ..fault };
                };
                let (item, field) = place.find(&field);
                fault.message_index = u32::try_from(item).ok();
                let dot = if field.is_empty() { "" } else { "." };
                format!("input[{item}]{dot}{field}")
            }
        };
        let message = fault.message.strip_prefix("message ").map(|rest| {
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            let same = rest.strip_prefix(", ").and_then(|rest| rest.strip_prefix(&*field));
            format!("{place}{}", same.unwrap_or(rest))
        });
        if let Some(message) = message {
            fault.message = message.into();
        }
        Fault { param: Some(place.into()), ..fault }
    }
}

/// Returns the name of a setting that has another one in chat completions.
fn own_name(param: &str) -> Option<String> {
    const NAMES: [(&str, &str); 6] = [
        ("messages", "input"),
        ("max_completion_tokens", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("response_format.json_schema", "text.format"),
        ("response_format", "text.format"),
        ("logprobs", "include"),
    ];
    let (chat, own) = NAMES.into_iter().find(|(chat, _)| param.starts_with(chat))?;
    param.strip_prefix(chat).map(|rest| format!("{own}{rest}"))
}
