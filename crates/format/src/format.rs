use std::sync::Arc;

use crate::{
    BoundaryToken, Choice, CodeResult, Control, ControlId, Defaults, FormatPart, Generation, Habits, Identity, Layout,
    Op, Pattern, Rules, Slot,
};

/// The layouts, control tokens, rules and defaults of one model family.
///
/// ```
/// use rolecall_format::{builtin, Slot};
/// let registry = builtin();
/// let format = registry.get("internlm2").expect("it is built in");
/// assert!(format.layout(Slot::User).is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// The part of a conversation that the format describes.
    pub part: FormatPart,
    /// The name that selects the format.
    pub name: String,
    /// Other names that select the format.
    pub aliases: Vec<String>,
    /// The display name.
    pub title: String,
    /// Name patterns of the models that use the format.
    pub models: Vec<Pattern>,
    /// Name patterns of the family's base models, whose chat tokens are untrained.
    pub base_models: Vec<Pattern>,
    /// How to recognise the folder of one of the family's models.
    pub identity: Identity,
    /// The public source of each fact.
    pub sources: Vec<(String, String)>,
    /// The control tokens, shared with every prompt.
    pub controls: Arc<[Control]>,
    /// Markers that look like control tokens but are ordinary text.
    pub plain_marks: Vec<String>,
    /// The options that a caller can set.
    pub choices: Vec<Choice>,
    /// Message fields that OpenAI's format lacks: each name with a one-sentence description.
    pub fields: Vec<(String, String)>,
    /// Enumerated names that are written as control tokens.
    pub control_names: Vec<(String, ControlId)>,
    /// The family's names for roles, by standard role. The first name is the one to show.
    pub roles: Vec<(String, Vec<String>)>,
    /// The rules for the order of messages.
    pub rules: Rules,
    /// The texts to use where the conversation has none.
    pub defaults: Defaults,
    /// The maker's generation settings.
    pub generation: Arc<Generation>,
    /// How the result of code is written.
    pub code_result: CodeResult,
    /// Layouts that are intentionally ambiguous.
    pub ambiguous: Vec<Slot>,
    /// Deviations of the models' output from the layouts.
    pub habits: Habits,
    /// The format that the framework's training code uses, if it differs.
    pub training: Option<Arc<Format>>,
    /// The layouts by slot. Has the length of `Slot::ALL` after loading.
    pub(crate) layouts: Vec<Option<Layout>>,
}

impl Format {
    /// Returns the layout of a slot, if the family has one.
    #[inline]
    pub fn layout(&self, slot: Slot) -> Option<&Layout> {
        self.layouts.get(slot as usize)?.as_ref()
    }

    /// Creates a format that has only a name.
    pub fn new(name: impl Into<String>) -> Format {
        Format { name: name.into(), ..Format::default() }
    }

    /// Replaces all layouts of the format with these.
    ///
    /// ```
    /// use rolecall_format::{Codec, Field, Format, Op, Slot};
    /// let user = vec![Op::Literal("Q: ".into()), Op::hole(Field::Content, Codec::Text), Op::Literal("\nA:".into())];
    /// let format = Format::new("qa").with_layouts([(Slot::User, user)]);
    /// assert!(format.layout(Slot::User).is_some());
    /// ```
    pub fn with_layouts(mut self, layouts: impl IntoIterator<Item = (Slot, Vec<Op>)>) -> Format {
        self.layouts = vec![None; Slot::ALL.len()];
        for (slot, ops) in layouts {
            self.layouts[slot as usize] = Some(Layout::new(ops, &self.controls));
        }
        self.mark_emitted();
        self
    }

    /// Removes the layouts of all slots that `keeps` rejects.
    pub(crate) fn keep_layouts(&mut self, keeps: impl Fn(Slot) -> bool) {
        for slot in Slot::ALL.into_iter().filter(|slot| !keeps(*slot)) {
            if let Some(layout) = self.layouts.get_mut(slot as usize) {
                *layout = None;
            }
        }
    }

    /// Returns all names that select the format, the primary one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// Returns the format that training uses.
    pub fn for_training(self: &Arc<Self>) -> &Arc<Format> {
        self.training.as_ref().unwrap_or(self)
    }

    /// Records for each control token whether a layout or a name emits it.
    pub(crate) fn mark_emitted(&mut self) {
        let marks = |id: ControlId| {
            let text = &self.controls[id.0].text;
            self.layouts.iter().flatten().any(|layout| layout.marks_with(text))
        };
        let written = |id: ControlId| self.layouts.iter().flatten().any(|layout| layout.writes(id)) || marks(id);
        let named = |id: ControlId| self.control_names.iter().any(|(_, named)| *named == id);
        let emitted: Vec<bool> = (0..self.controls.len()).map(ControlId).map(|id| written(id) || named(id)).collect();
        let controls = self.controls.iter().cloned().zip(emitted);
        self.controls = controls.map(|(control, emitted)| Control { emitted, ..control }).collect();
    }

    /// Reports whether a control token is the tokenizer's own, so that its text depends on the
    /// tokenizer.
    pub fn has_own_tokens(&self) -> bool {
        let patterns = self.layouts.iter().flatten().map(Layout::pattern);
        self.controls.iter().any(|control| control.own.is_some())
            || patterns.flatten().any(|op| matches!(op, Op::Own(_)))
    }

    /// Returns the format for a tokenizer with these opening tokens (usually one or none) and this
    /// closing token. A format without such tokens is returned unchanged.
    ///
    /// ```
    /// use rolecall_format::{Control, Format, BoundaryToken};
    /// let bos = Control { text: "<s>".into(), own: Some(BoundaryToken::Bos), ..Control::default() };
    /// let mut format = Format::new("qa");
    /// format.controls = [bos].into();
    /// let format = format.with_own_tokens(&["<|begin_of_text|>"], None);
    /// assert_eq!(format.controls[0].text, "<|begin_of_text|>");
    /// ```
    pub fn with_own_tokens(&self, bos: &[&str], eos: Option<&str>) -> Format {
        let mut format = self.clone();
        if !self.has_own_tokens() {
            return format;
        }
        let own = |kind, texts: &[&str]| {
            let like = self.controls.iter().find(|control| control.own == Some(kind)).cloned();
            let like = like.unwrap_or(Control {
                own: Some(kind),
                bos: kind == BoundaryToken::Bos,
                ends_turn: kind == BoundaryToken::Eos,
                ..Control::default()
            });
            let each = texts.iter().map(|text| {
                // A tokenizer with other token texts also has other ids.
                let id = like.id.filter(|_| *text == like.text);
                Control { text: (*text).to_owned(), id, ..like.clone() }
            });
            each.collect::<Vec<Control>>()
        };
        let fixed = self.controls.iter().enumerate().filter(|(_, control)| control.own.is_none());
        let (places, mut controls): (Vec<usize>, Vec<Control>) =
            fixed.map(|(at, control)| (at, control.clone())).unzip();
        let moved = |id: ControlId| places.iter().position(|place| *place == id.0).map(ControlId);
        controls.extend(own(BoundaryToken::Bos, bos));
        controls.extend(own(BoundaryToken::Eos, eos.as_slice()));
        let layouts =
            Slot::ALL.into_iter().filter_map(|slot| Some((slot, renumbered(self.layout(slot)?.pattern(), moved))));
        let layouts: Vec<(Slot, Vec<Op>)> = layouts.collect();
        let templates = self.defaults.system_templates.iter();
        format.defaults.system_templates = templates
            .map(|(name, layout)| (name.clone(), Layout::new(renumbered(layout.pattern(), moved), &controls)))
            .collect();
        format.controls = controls.into();
        let named = self.control_names.iter();
        format.control_names = named.filter_map(|(name, id)| Some((name.clone(), moved(*id)?))).collect();
        format.training = self.training.as_ref().map(|training| Arc::new(training.with_own_tokens(bos, eos)));
        format.with_layouts(layouts)
    }

    /// Returns the format for a tokenizer with these tokens. `None` keeps the present tokens, and
    /// an empty closing token removes it.
    pub fn with_tokens_of(&self, bos: Option<&[String]>, eos: Option<&str>) -> Format {
        let texts = |own| {
            let each = self.controls.iter().filter(move |control| control.own == Some(own));
            each.map(|control| control.text.as_str()).collect::<Vec<&str>>()
        };
        let bos = bos.map_or_else(|| texts(BoundaryToken::Bos), |bos| bos.iter().map(String::as_str).collect());
        let eos = eos.or(texts(BoundaryToken::Eos).first().copied()).filter(|eos| !eos.is_empty());
        self.with_own_tokens(&bos, eos)
    }

    /// Returns the texts of all control tokens, the longest first.
    pub(crate) fn spelled_controls(&self) -> Vec<(String, ControlId)> {
        let mut spelled: Vec<(String, ControlId)> = Vec::new();
        for (at, control) in self.controls.iter().enumerate() {
            spelled
                .extend(control.texts().filter(|text| !text.is_empty()).map(|text| (text.to_owned(), ControlId(at))));
        }
        spelled.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        spelled
    }

    /// Returns a control token.
    #[inline]
    pub fn control(&self, id: ControlId) -> &Control {
        &self.controls[id.0]
    }

    /// Returns the family's names for a standard role.
    pub fn role_names<'a>(&'a self, usual: &'a str) -> Vec<&'a str> {
        match self.roles.iter().find(|(known, _)| known == usual) {
            Some((_, own)) => own.iter().map(String::as_str).collect(),
            None => vec![usual],
        }
    }

    /// Returns the ids of the stop tokens, where public.
    pub fn stop_ids(&self) -> Vec<u32> {
        self.controls.iter().filter(|control| control.ends_turn).filter_map(|control| control.id).collect()
    }

    /// Returns the stop texts, including the tokenizer's own closing token.
    pub fn stops(&self) -> Vec<&str> {
        stops(&self.generation, &self.controls)
    }

    /// Returns the format with its control tokens in another spelling, for models that use that
    /// spelling.
    ///
    /// ```
    /// use rolecall_format::builtin;
    /// let registry = builtin();
    /// let format = registry.iter().find(|format| !format.spellings().is_empty()).expect("one has two spellings");
    /// let other = format.spelled(format.spellings()[0]);
    /// assert!(format.controls.iter().zip(other.controls.iter()).any(|(usual, other)| usual.text != other.text));
    /// ```
    pub fn spelled(&self, name: &str) -> Format {
        self.spelled_by(|control| control.spelling(Some(name)))
    }

    /// Returns the format with each control token in the text that `text` chooses from the token's
    /// texts.
    #[must_use]
    pub fn spelled_by(&self, text: impl Fn(&Control) -> &str) -> Format {
        let mut format = self.clone();
        format.controls = self.controls.iter().map(|control| control.spelled_as(text(control))).collect();
        let mut generation = Generation::clone(&self.generation);
        for stop in &mut generation.stop {
            if let Some(control) = self.controls.iter().find(|control| control.text == *stop) {
                *stop = text(control).to_owned();
            }
        }
        format.generation = Arc::new(generation);
        let layouts = Slot::ALL.into_iter().filter_map(|slot| Some((slot, self.layout(slot)?.ops().to_vec())));
        format.with_layouts(layouts.collect::<Vec<_>>())
    }

    /// Returns the names of the options, including `spelling` if control tokens have several spellings.
    pub fn option_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.choices.iter().map(|choice| choice.name.clone()).collect();
        names.extend((!self.spellings().is_empty()).then(|| "spelling".to_owned()));
        names
    }

    /// Returns the names of the spellings of its control tokens. The usual spelling has no name.
    pub fn spellings(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.controls.iter().flat_map(|control| control.spelled.iter().map(|(name, _)| name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Returns the stop texts: those that the settings list, and the tokenizer's own closing token.
pub fn stops<'a>(generation: &'a Generation, controls: &'a [Control]) -> Vec<&'a str> {
    let mut stops: Vec<&str> = generation.stop.iter().map(String::as_str).collect();
    for control in controls.iter().filter(|control| control.own == Some(BoundaryToken::Eos)) {
        if !stops.contains(&control.text.as_str()) {
            stops.push(&control.text);
        }
    }
    stops
}

fn renumbered(ops: &[Op], moved: impl Fn(ControlId) -> Option<ControlId> + Copy) -> Vec<Op> {
    let each = ops.iter().filter_map(|op| match op {
        Op::Control(id) => moved(*id).map(Op::Control),
        Op::Group(inner) => Some(Op::Group(renumbered(inner, moved))),
        other => Some(other.clone()),
    });
    each.collect()
}
