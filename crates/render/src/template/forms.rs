//! Which forms of messages and tools a template writes, each found out when it is first needed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Layout, Object};

use super::analysis::{self, ContentForm, EmptyContent, FormProbe};
use super::{ChatTemplate, ProbeBudget, TemplateOptions};

/// What is known of the forms that a template writes, in conversations without tools and with them.
#[derive(Debug, Default)]
pub(super) struct KnownForms {
    contents: [[OnceLock<ContentForm>; USUAL_ROLES.len()]; 2],
    contents_of_others: Mutex<HashMap<(String, bool), ContentForm>>,
    empty_calls: [[OnceLock<EmptyContent>; 4]; 2],
    names_results: [OnceLock<bool>; 2],
    renames_developers: OnceLock<bool>,
    writes_two_systems: OnceLock<bool>,
    fills_tools: OnceLock<bool>,
    /// The switches that a level of reasoning means, by the level and the switches beside it.
    efforts: Mutex<HashMap<String, Option<Object>>>,
    /// The number of steps that finding them out took.
    steps: AtomicU64,
    /// The same for the contents of unusual roles, which clients choose.
    steps_of_roles: AtomicU64,
}

/// The most unusual roles, without tools and with them, whose contents are tried. Clients choose roles.
const MOST_ROLES: usize = 64;

/// The most levels of reasoning that are remembered. Clients choose the switches beside them.
const MOST_EFFORTS: usize = 64;

/// The roles whose contents are tried in any case.
const USUAL_ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

// Code gets the messages as they are, and only their texts: nothing is to be found out.
impl ChatTemplate {
    /// Returns the form in which the template writes the contents of a role. If that is not known, it is either.
    pub fn content_form(&self, role: &str, has_tools: bool) -> ContentForm {
        if self.code.is_some() {
            return ContentForm::Text;
        }
        let found =
            |spent| self.form_within(spent, has_tools, |probe| probe.content_form(role)).unwrap_or(ContentForm::Either);
        if let Some(usual) = USUAL_ROLES.iter().position(|usual| *usual == role) {
            return *self.forms.contents[usize::from(has_tools)][usual].get_or_init(|| found(&self.forms.steps));
        }
        let contents = || self.forms.contents_of_others.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (role.to_owned(), has_tools);
        if let Some(form) = contents().get(&kind) {
            return *form;
        }
        if contents().len() >= MOST_ROLES {
            return ContentForm::Either;
        }
        let form = found(&self.forms.steps_of_roles);
        contents().insert(kind, form);
        form
    }

    /// Returns what a message with calls and without a text needs instead of this content.
    pub(super) fn empty_content(&self, given: EmptyContent, has_tools: bool) -> EmptyContent {
        if self.code.is_some() {
            return given;
        }
        let found = || self.form_of(has_tools, |probe| probe.empty_content(given)).unwrap_or(given);
        *self.forms.empty_calls[usize::from(has_tools)][given as usize].get_or_init(found)
    }

    /// Reports whether the template fails with a result that has no name.
    pub(super) fn names_results(&self, has_tools: bool) -> bool {
        if self.code.is_some() {
            return false;
        }
        let found = || self.form_of(has_tools, |probe| probe.must_name_results()).unwrap_or(false);
        *self.forms.names_results[usize::from(has_tools)].get_or_init(found)
    }

    /// Reports whether the template leaves out messages of the role `developer`, or refuses them.
    pub(super) fn renames_developers(&self) -> bool {
        if self.code.is_some() {
            return false;
        }
        let found = || self.form_of(false, |probe| probe.must_rename_developers()).unwrap_or(false);
        *self.forms.renames_developers.get_or_init(found)
    }

    /// Reports whether the template writes two messages of the system.
    pub(super) fn writes_two_systems(&self) -> bool {
        if self.code.is_some() {
            return true;
        }
        let found = || self.form_of(false, |probe| probe.writes_two_systems()).unwrap_or(false);
        *self.forms.writes_two_systems.get_or_init(found)
    }

    /// Reports whether the template fails with a tool that has only a name.
    pub(super) fn fills_tools(&self) -> bool {
        if self.code.is_some() {
            return false;
        }
        let found = || self.form_of(false, |probe| probe.must_fill_tools()).unwrap_or(false);
        *self.forms.fills_tools.get_or_init(found)
    }

    /// Returns the switches that a level of reasoning means beside the given ones, or `None` if the template does not know
    /// the level. The options are those of its prompts.
    ///
    /// ```
    /// use rolecall_conversation::json::Object;
    /// use rolecall_render::{ChatTemplate, TemplateOptions};
    /// let source = "{% if enable_thinking is defined and not enable_thinking %}[quiet]{% endif %}{{ messages[0].content }}";
    /// let template = ChatTemplate::compile(source, Vec::new())?;
    /// let switches = |level| template.effort_switches(level, &TemplateOptions::default(), &Object::new());
    /// assert_eq!(switches("none").and_then(|found| found.get("enable_thinking")?.as_bool()), Some(false));
    /// assert_eq!(switches("high"), None);
    /// # Ok::<(), rolecall_render::Error>(())
    /// ```
    pub fn effort_switches(&self, level: &str, options: &TemplateOptions, given: &Object) -> Option<Object> {
        let text = |object: &Object| json::write(&Json::Object(object.clone()), &Layout::compact());
        let key = format!("{level}\n{}\n{}", text(&options.kwargs), text(given));
        let efforts = || self.forms.efforts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = efforts().get(&key) {
            return known.clone();
        }
        let found = analysis::effort_of(self, options, given, |probe| probe.switches(level)).flatten();
        let mut efforts = efforts();
        if efforts.len() >= MOST_EFFORTS {
            efforts.clear();
        }
        efforts.insert(key, found.clone());
        found
    }

    fn form_of<T>(&self, has_tools: bool, find: impl FnOnce(&FormProbe<'_, '_>) -> T) -> Option<T> {
        self.form_within(&self.forms.steps, has_tools, find)
    }

    /// Finds out a form. What was spent before counts.
    fn form_within<T>(
        &self,
        spent: &AtomicU64,
        has_tools: bool,
        find: impl FnOnce(&FormProbe<'_, '_>) -> T,
    ) -> Option<T> {
        let budget = ProbeBudget::new(ProbeBudget::USUAL.saturating_sub(spent.load(Ordering::Relaxed)));
        let form = analysis::form_of(self, has_tools, &budget, find);
        spent.fetch_add(budget.spent(), Ordering::Relaxed);
        form
    }
}
