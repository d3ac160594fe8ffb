use std::fmt;
use std::sync::Arc;

use rolecall_format::{Control, Format, Header, Op, Slot, corrections};
use rolecall_render::ChatTemplate;
use rolecall_render::jinja::{NodeContent, Writes, WritesNode};

/// The part of a model that determines which tokens text must never encode to: its format or
/// templates, and the layouts of its replies.
///
/// [`Encoder`](crate::Encoder) asks the tokenizer for what the tokenizer and the files next to it
/// contribute.
///
/// ```
/// use rolecall_encode::Protection;
/// use rolecall_render::ChatTemplate;
/// let chat = ChatTemplate::compile("{{ '<|user|>' + messages[0].content }}", Vec::new())?;
/// let tools = ChatTemplate::compile("{{ '<tool>' + messages[0].content }}", Vec::new())?;
/// // The model has both templates: the tokens of both are protected, whichever renders the conversation.
/// let protection = Protection::default().with_template("default", &chat).with_template("tool_use", &tools);
/// # let _ = protection;
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Protection {
    pub(crate) controls: Arc<[Control]>,
    pub(crate) writers: Vec<TextWriter>,
    /// The texts of the templates.
    pub(crate) templates: Vec<Arc<str>>,
    /// The special tokens that the templates receive: name and text.
    pub(crate) tokens: Vec<(String, String)>,
    pub(crate) mode: Protect,
}

/// Which of a tokenizer's added tokens are kept out of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protect {
    /// Only control tokens, so that harmless text gets the ids that the model was trained with.
    #[default]
    Control,
    /// All added tokens except white space and runs of one character.
    AllAdded,
}

impl Protect {
    /// The values by their words.
    pub const ALL: [(&'static str, Protect); 2] = [("control", Protect::Control), ("all-added", Protect::AllAdded)];
}

/// What to do if a chat template marks turns with texts that are not tokens of the tokenizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PlainMarkers {
    /// Refuse: the template belongs to another model.
    #[default]
    Refuse,
    /// Encode them as text: the model was trained on them as text.
    Allow,
}

/// Something that writes or reads text, such as a template.
#[derive(Clone, Debug)]
pub(crate) struct TextWriter {
    pub by: By,
    pub writes: Arc<Writes>,
}

/// The source of a literal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum By {
    /// A format, by name.
    Format(String),
    /// A chat template, by name.
    Template(String),
    /// The layouts that parse replies, by the name of their format.
    Reply(String),
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Format(name) => write!(f, "the format `{name}`"),
            By::Template(name) => write!(f, "the chat template `{name}`"),
            By::Reply(name) => write!(f, "the reply layouts of `{name}`"),
        }
    }
}

impl Protection {
    /// Adds what the model's format writes and parses.
    #[must_use]
    pub fn with_format(mut self, format: &Format) -> Protection {
        self.controls = Arc::clone(&format.controls);
        self.writers.push(TextWriter { by: By::Format(format.name.clone()), writes: Arc::new(writes_of(format)) });
        self
    }

    /// Adds what a chat template of the model writes and compares.
    #[must_use]
    pub fn with_template(mut self, name: &str, template: &ChatTemplate) -> Protection {
        // If a template is too large to analyze, `ProtectedTokens` protects all added tokens.
        let writes = template.writes().unwrap_or_default();
        self.writers.push(TextWriter { by: By::Template(name.to_owned()), writes });
        self.templates.push(Arc::clone(template.identity()));
        for token in template.tokens() {
            if !self.tokens.contains(token) {
                self.tokens.push(token.clone());
            }
        }
        self.with_corrections(template.source())
    }

    /// Adds a template of the model that cannot be compiled. All of its text counts as literals.
    #[must_use]
    pub fn with_source(mut self, name: &str, source: &str) -> Protection {
        let nodes = vec![node(NodeContent::Text(source.into()))];
        let writes = Arc::new(Writes { nodes, is_complete: true });
        self.writers.push(TextWriter { by: By::Template(name.to_owned()), writes });
        self.with_corrections(source)
    }

    /// Adds the corrections of the template's model family. Layouts inferred from a template parse
    /// what the template writes; the corrections parse more than that.
    fn with_corrections(self, template: &str) -> Protection {
        let fitting = corrections().iter().filter(|correction| correction.identity.fits_template(template));
        fitting.fold(self, Protection::with_replies)
    }

    /// Adds the layouts that parse the model's replies.
    #[must_use]
    pub fn with_replies(mut self, format: &Format) -> Protection {
        let mut writes = writes_of(format);
        let controls = format.controls.iter().flat_map(Control::texts);
        writes.nodes.extend(controls.map(|text| node(NodeContent::Text(text.into()))));
        self.writers.push(TextWriter { by: By::Reply(format.name.clone()), writes: Arc::new(writes) });
        self
    }

    /// Sets which added tokens are kept out of text.
    #[must_use]
    pub fn protecting(mut self, mode: Protect) -> Protection {
        self.mode = mode;
        self
    }
}

/// Returns the literals of a format and which of them may be adjacent.
fn writes_of(format: &Format) -> Writes {
    let mut nodes = vec![node(NodeContent::Nothing)];
    let named = format.defaults.system_templates.iter().map(|(_, layout)| layout);
    for layout in Slot::ALL.into_iter().filter_map(|slot| format.layout(slot)).chain(named) {
        let end = row(layout.ops(), 0, &mut nodes);
        // Another layout may follow.
        if let Some(end) = end {
            nodes[end].next.push(0);
        }
    }
    let defaults = &format.defaults;
    let said = [&defaults.system, &defaults.system_with_tools, &defaults.interpreter, &defaults.gap];
    let texts = said.into_iter().flatten().chain(&format.plain_marks);
    let texts =
        texts.chain(&format.habits.call_marks).chain(&format.generation.stop).chain(&format.generation.infill_stop);
    let headers = format.habits.header.iter().flat_map(Header::marks);
    nodes.extend(headers.map(|mark| node(NodeContent::Text(mark.into()))));
    let texts = texts.chain(format.choices.iter().map(|choice| &choice.default));
    let texts = texts.chain(format.roles.iter().flat_map(|(_, own)| own));
    let texts: Vec<WritesNode> = texts.map(|text| node(NodeContent::Text(text.as_str().into()))).collect();
    nodes.extend(texts);
    if let Some(training) = &format.training {
        let shift = nodes.len() as u32;
        let more = writes_of(training).nodes.into_iter().map(|mut node| {
            node.next.iter_mut().for_each(|next| *next += shift);
            node
        });
        nodes.extend(more);
    }
    Writes { nodes, is_complete: true }
}

fn node(written: NodeContent) -> WritesNode {
    WritesNode { written, next: Vec::new() }
}

/// Adds the pieces of a layout after the node `from`. Returns the last node, or `None` after a
/// control token, which text never joins.
fn row(ops: &[Op], from: usize, nodes: &mut Vec<WritesNode>) -> Option<usize> {
    let mut last = Some(from);
    for op in ops {
        let add = |written: NodeContent, last: Option<usize>, nodes: &mut Vec<WritesNode>| {
            nodes.push(node(written));
            let at = nodes.len() - 1;
            if let Some(last) = last {
                nodes[last].next.push(at as u32);
            }
            Some(at)
        };
        last = match op {
            Op::Literal(text) => add(NodeContent::Text(text.as_str().into()), last, nodes),
            Op::Hole { codec: rolecall_format::Codec::Marked(marked), .. } => {
                nodes.push(node(NodeContent::Text(marked.marker().into())));
                add(NodeContent::Nothing, last, nodes)
            }
            Op::Hole { .. } | Op::Own(_) => add(NodeContent::Nothing, last, nodes),
            Op::Control(_) | Op::Seam => None,
            Op::Group(inner) => {
                let start = add(NodeContent::Nothing, last, nodes);
                let end = start.and_then(|start| row(inner, start, nodes));
                // The group may be absent.
                let behind = add(NodeContent::Nothing, start, nodes);
                if let (Some(end), Some(behind)) = (end, behind) {
                    nodes[end].next.push(behind as u32);
                }
                behind
            }
        };
    }
    last
}
