//! A message of a role and a text is rendered in one step. The result must be that of the general
//! path, which handles a message with any further key.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use fastrand::Rng;
use rolecall::conversation::{Conversation, Json, Message, object};
use rolecall::format::registry;
use rolecall::render::{Options, RuleMode, Writer};
use rolecall_testkit::generate;

/// A key that no format reads.
const UNREAD: &str = "rolecall_unread";

#[test]
fn a_plain_message_is_rendered_like_any_other() {
    let registry = registry();
    let mut rng = Rng::with_seed(1);
    let (mut same, mut refused) = (0, 0);
    for format in generate::variants(&registry) {
        let markers = generate::marks(format);
        for round in 0..40 {
            let count = rng.usize(1..7);
            let first = usize::from(rng.bool());
            let messages: Vec<(&str, String)> = (0..count)
                .map(|at| {
                    let role = match (at, (at + first) % 2) {
                        (0, 0) => "system",
                        (_, 0) => "assistant",
                        _ => "user",
                    };
                    let role = if rng.u8(..12) == 0 { "tool" } else { role };
                    let text = match rng.u8(..4) {
                        0 => String::new(),
                        1 => " \n text \t\u{1c} ".to_owned(),
                        2 => generate::hostile(&markers, &mut rng),
                        _ => "plain text".to_owned(),
                    };
                    (role, text)
                })
                .collect();
            let conversation = |is_plain: bool| {
                let each = messages.iter().map(|(role, text)| {
                    let mut object = object! { "role" => *role, "content" => text.as_str() };
                    if !is_plain {
                        object.insert(UNREAD, Json::Bool(true));
                    }
                    Message::from_object(object).unwrap()
                });
                Conversation::new(each.collect())
            };
            for rules in [RuleMode::Enforce, RuleMode::Reference] {
                let options = Options { rules, ..Options::default() };
                let [plain, general] = [true, false]
                    .map(|is_plain| Writer::format(format.clone(), options.clone()).render(&conversation(is_plain)));
                let name = format!("{} {round} {messages:?}", generate::label(format));
                match (plain, general) {
                    (Ok(plain), Ok(general)) => {
                        assert_eq!(plain.text(), general.text(), "{name}");
                        assert!(plain.segments().eq(general.segments()), "{name}");
                        assert_eq!(plain.turns(), general.turns(), "{name}");
                        same += 1;
                    }
                    (Err(plain), Err(general)) => {
                        assert_eq!(plain.to_string(), general.to_string(), "{name}");
                        refused += 1;
                    }
                    (plain, general) => panic!("{name}: {:?} and {:?}", plain.err(), general.err()),
                }
            }
        }
    }
    assert!(same > 1000 && refused > 100, "{same} rendered, {refused} refused");
}
