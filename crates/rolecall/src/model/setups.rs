use std::sync::{Arc, Mutex, PoisonError, Weak};

use rolecall_openai::Request;
use rolecall_render::DateTime;

use super::Model;
use super::setup::Setup;
use crate::Error;

/// The setups of the latest sessions. Most requests to a server differ only in their messages, and share one.
///
/// A setup lives as long as a session has it.
#[derive(Default)]
pub(super) struct Setups(Mutex<Vec<Weak<Setup>>>);

/// The most setups that are known at a time.
const KNOWN: usize = 16;

impl Setups {
    /// Resolves a request without its messages, or returns what was resolved for an equal one. A template
    /// that may read the clock gets the time at which each session began, or now.
    pub fn of(&self, model: &Model, mut request: Request, began: Option<DateTime>) -> Result<Arc<Setup>, Error> {
        request.conversation.messages.clear();
        request.conversation.continue_final_message = false;
        if let Some(known) = self.find(&request) {
            return Ok(known);
        }
        let setup = Arc::new(Setup::at(model, request, began)?);
        if setup.clock().is_none() {
            let mut known = self.known();
            known.retain(|known| known.strong_count() > 0);
            known.truncate(KNOWN - 1);
            known.insert(0, Arc::downgrade(&setup));
        }
        Ok(setup)
    }

    /// Returns the setup of an equal request, which becomes the latest.
    fn find(&self, request: &Request) -> Option<Arc<Setup>> {
        let mut known = self.known();
        let setups = known.iter().enumerate().filter_map(|(at, setup)| Some((at, setup.upgrade()?)));
        let (at, found) = setups.into_iter().find(|(_, setup)| setup.request == *request)?;
        known[..=at].rotate_right(1);
        Some(found)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Setup>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::Message;

    use super::*;
    use crate::session::{Finish, OnRewrite};
    use crate::template::ModelTemplates;
    use crate::tokenizer::HuggingFace;

    fn model(source: &str) -> Model {
        let json = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {
            "a": 0, "|": 1, "0": 2, "1": 3, "2": 4, "3": 5, "4": 6, "5": 7, "6": 8, "7": 9, "8": 10, "9": 11
        }, "merges": []}}"#;
        let mut templates = ModelTemplates::from_json(&source.into()).unwrap();
        templates.set_token("eos_token", "|".into());
        let tokenizer = Arc::new(HuggingFace::from_bytes(json, None).unwrap());
        Model::builder().templates(templates).loaded_tokenizer(tokenizer).open().unwrap()
    }

    fn request(switch: &str) -> Request {
        let text = format!(
            r#"{{"messages": [{{"role": "user", "content": "a"}}], "chat_template_kwargs": {{"switch": {switch}}}}}"#
        );
        Request::from_text(&text).unwrap()
    }

    const PLAIN: &str = "{{ switch }}{% for m in messages %}{{ m.content }}|{% endfor %}";

    #[test]
    fn requests_that_differ_only_in_messages_share_a_setup() {
        let model = model(PLAIN);
        let mut other = request("1");
        other.conversation.messages.clear();
        let setups =
            [request("1"), other, request("2"), request("1.0")].map(|request| model.setup_of(request, None).unwrap());
        assert!(Arc::ptr_eq(&setups[0], &setups[1]));
        assert!(!Arc::ptr_eq(&setups[0], &setups[2]) && !Arc::ptr_eq(&setups[0], &setups[3]));
        // Other settings may resolve it in another way.
        let same = model.with_settings(model.settings().clone()).setup_of(request("1"), None).unwrap();
        assert!(!Arc::ptr_eq(&setups[0], &same));
    }

    #[test]
    fn a_template_that_may_read_the_clock_has_a_setup_for_each_session() {
        let model = model("{{ strftime_now('%Y') }}{{ switch }}{% for m in messages %}{{ m.content }}|{% endfor %}");
        let [one, other] = [request("1"), request("1")].map(|request| model.setup_of(request, None).unwrap());
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(one.clock().is_some());
    }

    /// A template that does not read the clock takes nothing away from one that is chosen later.
    #[test]
    fn a_session_keeps_its_clock_while_templates_change() {
        let model = model(PLAIN);
        let with = |template: &str| {
            let mut request = request("1");
            request.other.insert("chat_template", template.into());
            request
        };
        let mut first = request("1");
        first.other.insert("now", "2021-02-03T04:05:06".into());
        let mut session = model.session(first).unwrap();
        session.open().unwrap();
        session.accept(&[0, 1], Finish::Stop).unwrap();
        let clocked = format!("{{{{ strftime_now('%Y') }}}}{PLAIN}");
        for (template, wanted) in [(clocked.as_str(), "20211"), (PLAIN, "1"), (&clocked, "20211")] {
            let plan = session.plan_with(with(template), &[Message::user("a")]).unwrap();
            session.append(plan, OnRewrite::Rewrite).unwrap();
            // What was sent last is of another template until the turn opens.
            session = model.restore_session(&session.save().unwrap()).unwrap();
            session.open().unwrap();
            let text = String::from_utf8(session.bytes()).unwrap();
            assert!(text.starts_with(&format!("{wanted}a|")), "{text}");
            session.accept(&[0, 1], Finish::Stop).unwrap();
            session = model.restore_session(&session.save().unwrap()).unwrap();
        }
    }

    #[test]
    fn only_the_latest_setups_that_a_session_has_are_known() {
        let model = model(PLAIN);
        let first = model.setup_of(request("0"), None).unwrap();
        for switch in 1..1_000 {
            model.setup_of(request(&switch.to_string()), None).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &model.setup_of(request("0"), None).unwrap()));
        let kept: Vec<_> = (1..100).map(|switch| model.setup_of(request(&switch.to_string()), None).unwrap()).collect();
        assert!(model.setups.known().len() <= KNOWN);
        assert!(!Arc::ptr_eq(&first, &model.setup_of(request("0"), None).unwrap()));
        assert!(Arc::ptr_eq(&kept[98], &model.setup_of(request("99"), None).unwrap()));
    }
}
