//! The forms of contents, empty calls, results, roles and tools that a template writes, found by the origins of short
//! conversations.

use std::cmp::Reverse;
use std::rc::Rc;

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Layout};

use super::probe::{Probe, ProbedPrompt};
use super::sample::{TOOLS, USER};
use super::support::{self, ARGUMENTS};
use crate::Origin;

/// The form in which a template writes a content that is only text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentForm {
    /// A text or a list of parts, or it is not known.
    Either,
    /// A text. Parts are refused, left out, or printed as a list.
    Text,
    /// A text. Parts are written, but otherwise than a text.
    TextRather,
    /// A list of parts. A text is refused, left out, or written character by character.
    Parts,
    /// A list of one part. Others are left out.
    OnePart,
}

/// The content of a message with calls and without a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::template) enum EmptyContent {
    Missing,
    Null,
    Text,
    /// A list of one empty text.
    Part,
}

impl EmptyContent {
    /// In the order in which they replace another one.
    const ALL: [EmptyContent; 4] = [EmptyContent::Text, EmptyContent::Null, EmptyContent::Missing, EmptyContent::Part];

    /// Returns the key of a message as JSON, with a comma after it.
    fn key(self) -> &'static str {
        match self {
            EmptyContent::Missing => "",
            EmptyContent::Null => r#""content": null, "#,
            EmptyContent::Text => r#""content": "", "#,
            EmptyContent::Part => r#""content": [{"type": "text", "text": ""}], "#,
        }
    }
}

/// How well a call without a text is written: whether it is there, that the engine writes no `None`, and whether its
/// turn is closed as beside a text.
type CallScore = (bool, Reverse<usize>, bool);

/// Finds out which forms a template writes in a conversation with tools or without.
pub(in crate::template) struct FormProbe<'p, 't> {
    probe: &'p Probe<'t>,
    /// The tools of the conversations.
    tools: &'static str,
    /// A message of the user in a form that the template writes.
    user: String,
}

/// The texts of the contents that are tried.
const TEXTS: [&str; 2] = ["alpha", "omega"];

/// The contents of a message that calls.
const CONTENTS: [&str; 4] =
    [r#""content": "", "#, r#""content": null, "#, r#""content": [{"type": "text", "text": ""}], "#, BESIDE];

/// A text beside a call.
const BESIDE: &str = r#""content": "I look.", "#;

/// How a content is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentUse {
    /// Each of its texts this often.
    Times(usize),
    /// In the syntax of Python or JSON.
    AsList,
    /// Not, or not all of it, or in pieces.
    No,
}

impl<'p, 't> FormProbe<'p, 't> {
    pub(in crate::template::analysis) fn new(probe: &'p Probe<'t>, has_tools: bool) -> FormProbe<'p, 't> {
        let tools = if has_tools { TOOLS } else { "" };
        let user = FormProbe { probe, tools, user: USER.to_owned() }.content_form("user");
        let is_text = matches!(user, ContentForm::Either | ContentForm::Text | ContentForm::TextRather);
        let user = if is_text { USER.to_owned() } else { message("user", &parts(&["Which way?"]), "") };
        FormProbe { probe, tools, user }
    }

    /// Returns a message of the user in a form that the template writes.
    pub(in crate::template::analysis) fn into_user(self) -> String {
        self.user
    }

    /// Returns the form of the contents of a role.
    pub fn content_form(&self, role: &str) -> ContentForm {
        let text = self.content_use(role, &quoted(TEXTS[0]), 1);
        let both = self.content_use(role, &parts(&TEXTS), TEXTS.len());
        match (text, both) {
            // A template that writes parts more often than a text, or adds something, does something else with them.
            (ContentUse::Times(text), ContentUse::Times(both)) if text == both && self.writes_part_as_text(role) => {
                ContentForm::Either
            }
            (ContentUse::Times(_), ContentUse::Times(_)) => ContentForm::TextRather,
            (ContentUse::Times(_), _) => ContentForm::Text,
            // A list is better than a text of which each character is an item.
            (_, ContentUse::Times(_) | ContentUse::AsList) => ContentForm::Parts,
            (_, ContentUse::No) => match self.content_use(role, &parts(&TEXTS[..1]), 1) {
                ContentUse::Times(_) => ContentForm::OnePart,
                // What writes no tools is tried without.
                _ if !self.tools.is_empty() => FormProbe::new(self.probe, false).content_form(role),
                _ if self.writes_some(role, &quoted(TEXTS[0])) && !self.writes_some(role, &parts(&TEXTS)) => {
                    ContentForm::Text
                }
                // It refuses all forms, or leaves them out.
                _ => ContentForm::Either,
            },
        }
    }

    /// Reports whether the template writes anything of a content.
    fn writes_some(&self, role: &str, content: &str) -> bool {
        self.with_content(role, content).is_some_and(|(at, probed)| {
            probed.prints(|origin| {
                matches!(origin, Origin::Message { message, field } if *message == at && field.starts_with("content"))
            })
        })
    }

    /// Reports whether the template writes one part as it writes a text.
    fn writes_part_as_text(&self, role: &str) -> bool {
        let prompt = |content: &str| self.with_content(role, content).map(|(_, probed)| probed.text.clone());
        prompt(&quoted(TEXTS[0])) == prompt(&parts(&TEXTS[..1]))
    }

    /// Finds out how a content of a role with the first `count` of [`TEXTS`] is written.
    fn content_use(&self, role: &str, content: &str, count: usize) -> ContentUse {
        let Some((at, probed)) = self.with_content(role, content) else { return ContentUse::No };
        let of_content = |origin: &Origin, is_it: &dyn Fn(&str) -> bool| match origin {
            Origin::Message { message, field } => *message == at && field.strip_prefix("content").is_some_and(is_it),
            _ => false,
        };
        // A filter may change the case of the letters.
        let times = |text: &str| {
            let own = probed.pieces.iter().filter(|piece| {
                piece.origin.as_ref().is_some_and(|origin| of_content(origin, &|rest| !rest.ends_with(".type")))
            });
            own.filter(|piece| probed.text[piece.start..piece.end].to_lowercase().contains(text)).count()
        };
        let first = times(TEXTS[0]);
        if first == 0 || TEXTS[..count].iter().any(|text| times(text) != first) {
            return ContentUse::No;
        }
        let is_list = probed.prints(|origin| of_content(origin, &|rest| rest.ends_with("].type")));
        if is_list { ContentUse::AsList } else { ContentUse::Times(first) }
    }

    /// Renders a conversation with a message of a role. Returns the index of the message and the prompt.
    fn with_content(&self, role: &str, content: &str) -> Option<(usize, Rc<ProbedPrompt>)> {
        let asked = message(role, content, "");
        match role {
            "user" => Some((0, self.run(&[&asked])?)),
            "assistant" => Some((1, self.run(&[&self.user, &asked, &self.user])?)),
            "tool" | "function" => {
                let told = result(role, content, true);
                Some((2, self.called(&CONTENTS, &[told])?))
            }
            _ => Some((0, self.run(&[&asked, &self.user])?)),
        }
    }

    /// Returns what a message with calls needs instead of this content: the same, if the template writes that as well
    /// as any other.
    pub fn empty_content(&self, given: EmptyContent) -> EmptyContent {
        let beside = self.called(&[BESIDE], &results(true)).or_else(|| self.called(&[BESIDE], &[]));
        let score = |content: EmptyContent| -> Option<CallScore> {
            let probed =
                self.called(&[content.key()], &results(true)).or_else(|| self.called(&[content.key()], &[]))?;
            // A text may stand behind the calls.
            let is_closed = |beside: &Rc<ProbedPrompt>| probed.between_turns(1).ends_with(beside.between_turns(1));
            let is_closed = beside.as_ref().is_none_or(is_closed);
            Some((probed.prints(is_call), Reverse(probed.nones()), is_closed))
        };
        let best = EmptyContent::ALL.into_iter().filter_map(score).max();
        let is_best = |content: &EmptyContent| score(*content) == best;
        let all = [given].into_iter().chain(EmptyContent::ALL);
        all.into_iter().find(is_best).unwrap_or(given)
    }

    /// Reports whether the template fails with a result that has no name.
    pub fn must_name_results(&self) -> bool {
        self.called(&CONTENTS, &results(false)).is_none() && self.called(&CONTENTS, &results(true)).is_some()
    }

    /// Reports whether the template leaves out a message of the developer, or refuses it.
    pub fn must_rename_developers(&self) -> bool {
        let is_written = |content: &str| {
            let probed = self.run(&[&message("developer", content, ""), &self.user]);
            probed.is_some_and(|probed| probed.text_of(|origin| origin.message() == Some(0)).contains(TEXTS[0]))
        };
        !is_written(&quoted(TEXTS[0])) && !is_written(&parts(&TEXTS[..1]))
    }

    /// Reports whether the template writes two messages of the system.
    pub fn writes_two_systems(&self) -> bool {
        let [first, second] = TEXTS.map(|text| message("system", &quoted(text), ""));
        let probed = self.run(&[&first, &second, &self.user]);
        probed.is_some_and(|probed| {
            [0, 1]
                .into_iter()
                .zip(TEXTS)
                .all(|(message, text)| probed.text_of(|origin| origin.message() == Some(message)).contains(text))
        })
    }

    /// Reports whether the template fails with a tool that has only a name.
    pub fn must_fill_tools(&self) -> bool {
        let is_written = |more: &str| {
            let tool = format!(r#"{{"type": "function", "function": {{"name": "look_up"{more}}}}}"#);
            self.probe.run(&[&self.user], &format!(r#""tools": [{tool}]"#)).is_ok()
        };
        !is_written("") && is_written(r#", "description": "", "parameters": {"type": "object", "properties": {}}"#)
    }

    /// Renders a call and its result, or the call alone if there are no results, in the first form of both that the
    /// template writes, with the call if it can.
    fn called(&self, contents: &[&str], results: &[String]) -> Option<Rc<ProbedPrompt>> {
        let forms = contents.iter().flat_map(|content| ARGUMENTS.map(|arguments| calling(content, arguments)));
        let forms = forms.flat_map(|call| {
            let alone = results.is_empty().then(|| (call.clone(), None));
            results.iter().map(move |result| (call.clone(), Some(result.as_str()))).chain(alone)
        });
        let mut first = None;
        for (call, result) in forms {
            let messages: Vec<&str> = [self.user.as_str(), &call].into_iter().chain(result).collect();
            match self.run(&messages) {
                Some(probed) if probed.prints(is_call) => return Some(probed),
                probed => first = first.or(probed),
            }
        }
        first
    }

    fn run(&self, messages: &[&str]) -> Option<Rc<ProbedPrompt>> {
        self.probe.run(messages, self.tools).ok()
    }
}

/// Reports whether an origin is in the call.
fn is_call(origin: &Origin) -> bool {
    matches!(origin, Origin::Message { message: 1, field } if field.starts_with("tool_calls"))
}

/// Returns a message that calls. `content` is its key, with a comma after it.
fn calling(content: &str, arguments: &str) -> String {
    support::calling(1, "null", arguments).replace(r#""content": null, "#, content)
}

/// Returns the result of the call, as a text and in parts.
fn results(has_name: bool) -> [String; 2] {
    [quoted("north"), parts(&["north"])].map(|content| result("tool", &content, has_name))
}

fn result(role: &str, content: &str, has_name: bool) -> String {
    let name = if has_name { r#", "name": "look_up""# } else { "" };
    message(role, content, &format!(r#", "tool_call_id": "lookup001"{name}"#))
}

fn message(role: &str, content: &str, more: &str) -> String {
    format!(r#"{{"role": {}, "content": {content}{more}}}"#, quoted(role))
}

fn parts(texts: &[&str]) -> String {
    let parts: Vec<String> = texts.iter().map(|text| format!(r#"{{"type": "text", "text": "{text}"}}"#)).collect();
    format!("[{}]", parts.join(", "))
}

fn quoted(text: &str) -> String {
    json::write(&Json::from(text), &Layout::default())
}
