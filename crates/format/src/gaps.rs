//! Checks that the parts of a file fit together: whatever a part needs must be present, and
//! whatever is present must be used.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Codec, Diagnostic, Field, Format, FormatPart, Op, Slot, SystemRule, SystemWithTools};

/// Positions of keys in the file, such as `layout.user`, `defaults.system` and `rules.system`.
pub(crate) type Places = BTreeMap<String, Range<usize>>;

/// Finds everything that would drop part of a conversation from a prompt or is never written.
pub(crate) fn find_gaps(format: &Format, places: &Places) -> Vec<Diagnostic> {
    let mut gaps = Gaps { format, places, found: Vec::new() };
    gaps.contents();
    gaps.system();
    gaps.calls();
    gaps.tools();
    gaps.twins();
    gaps.found
}

/// Finds undeclared stop texts. This check does not need the rest of the file to be correct.
pub(crate) fn find_undeclared(format: &Format, stops: &[(String, Range<usize>)]) -> Vec<Diagnostic> {
    // A correction has no declarations. It names tokens of its template.
    if format.part == FormatPart::Correction {
        return Vec::new();
    }
    let is_known = |text: &str| {
        let declared = format.controls.iter().any(|control| control.texts().any(|known| known == text));
        let mut layouts = Slot::ALL.iter().filter_map(|slot| format.layout(*slot));
        declared
            || layouts.any(|layout| spells(layout.ops(), text.trim()))
            || format.plain_marks.iter().any(|mark| mark == text)
    };
    let unknown = stops.iter().filter(|(text, _)| !is_known(text));
    let told = unknown.map(|(text, span)| {
        let message = format!("`{text}` is a stop text but not a declared control token");
        let help = "declare it in `[control]`, or name it in `plain-marks` if it is ordinary text";
        diagnostic(span.clone(), message, help)
    });
    told.collect()
}

struct Gaps<'a> {
    format: &'a Format,
    places: &'a Places,
    found: Vec<Diagnostic>,
}

impl Gaps<'_> {
    /// Checks that the text of every message is written.
    fn contents(&mut self) {
        let turns = [
            Slot::System,
            Slot::SystemFirst,
            Slot::User,
            Slot::UserFirst,
            Slot::Assistant,
            Slot::Tool,
            Slot::ToolInterpreter,
        ];
        for slot in turns {
            let folded = matches!(slot, Slot::User | Slot::UserFirst) && self.prints(slot, Field::Folded);
            if self.has(slot) && !self.prints(slot, Field::Content) && !folded {
                let message =
                    format!("the layout `{}` has no `{{content}}`, so the message's text would be lost", slot.key());
                self.gap(&layout_key(slot), message, "put `{content}` where the text goes");
            }
        }
        if self.has(Slot::ToolGroup) && !(self.has(Slot::Tool) && self.prints(Slot::ToolGroup, Field::Results)) {
            let message = "`tool-group` needs `{results}` and a layout `tool` that writes each result".into();
            let help = "write `tool = \"..{content}..\"` and put `{results}` into `tool-group`";
            self.gap("layout.tool-group", message, help);
        }
    }

    fn system(&mut self) {
        let rule = self.format.rules.system;
        let folds = [Slot::User, Slot::UserFirst].into_iter().any(|slot| self.prints(slot, Field::Folded));
        let has_layout = self.has(Slot::System) || self.has(Slot::SystemFirst);
        if rule == SystemRule::Fold && !folds {
            let message =
                "`system = \"fold\"` needs `{folded}` in `user-first` or `user`, or the system text would be lost";
            self.gap("rules.system", message.into(), "write `{folded}` instead of `{content}` in `user-first`");
        }
        if self.has(Slot::Folded) {
            let whole = self.prints(Slot::Folded, Field::System) && self.prints(Slot::Folded, Field::Content);
            if !whole {
                let message = "`folded` needs both `{system}` and `{content}`, or one of them would be lost".into();
                self.gap("layout.folded", message, "write for example `[[{system}\\n\\n]]{content}`");
            }
            if rule != SystemRule::Fold {
                let message = "the layout `folded` is never used: no rule folds the system text".into();
                self.gap("layout.folded", message, "add `system = \"fold\"` to `[rules]`");
            }
        }
        if rule == SystemRule::None && has_layout {
            let message = "`system = \"none\"` and a layout for system messages contradict each other".into();
            self.gap("rules.system", message, "remove one of them");
        }
        let no_place = !has_layout && rule != SystemRule::Fold;
        for (key, text) in [
            ("defaults.system", &self.format.defaults.system),
            ("defaults.system-with-tools", &self.format.defaults.system_with_tools),
        ] {
            if text.is_some() && no_place {
                let message = format!("`{key}` needs the layout `system`, which is missing");
                self.found.push(diagnostic(self.place(key), message, "add the layout `system`"));
            }
        }
        let replaces = self.format.rules.system_with_tools == SystemWithTools::Replace;
        if replaces && self.format.defaults.system_with_tools.is_none() {
            let message = "`system-with-tools = \"replace\"` needs a replacement text".into();
            self.gap("rules.system-with-tools", message, "add `system-with-tools = \"..\"` to `[defaults]`");
        }
    }

    fn calls(&mut self) {
        let turns = [Slot::Assistant, Slot::AssistantLast, Slot::AssistantWithCalls];
        let printed = turns.into_iter().any(|slot| self.prints(slot, Field::Calls));
        let parts = [Slot::Calls, Slot::Call, Slot::CallInterpreter, Slot::CallSeparator];
        if let Some(slot) = parts.into_iter().find(|slot| self.has(*slot))
            && !printed
        {
            let message =
                format!("the layout `{}` is never used: no layout of the assistant has `{{calls}}`", slot.key());
            self.gap(&layout_key(slot), message, "put `{calls}` into `assistant` or `assistant-with-calls`");
        }
        for slot in turns {
            if self.prints(slot, Field::Calls) && !self.has(Slot::Call) && !self.has(Slot::CallInterpreter) {
                let message = format!("`{}` has `{{calls}}`, but there is no layout for a call", slot.key());
                self.gap(&layout_key(slot), message, "add the layout `call`");
            }
        }
        for slot in [Slot::AssistantWithCalls, Slot::Calls] {
            if self.has(slot) && !self.prints(slot, Field::Calls) {
                let message = format!("`{}` has no `{{calls}}`, so the calls would be lost", slot.key());
                self.gap(&layout_key(slot), message, "put `{calls}` where the calls go");
            }
        }
        self.arguments();
    }

    /// Checks that the name and value of every listed argument are written.
    fn arguments(&mut self) {
        let listed = self.format.layout(Slot::Call).is_some_and(|layout| bare(layout.ops(), &[Field::Arguments]));
        if listed && !self.has(Slot::Argument) {
            let message = "`call` lists the arguments, but there is no layout for one argument".to_owned();
            self.gap("layout.call", message, "write `{arguments:json}`, or add the layout `argument`");
        }
        for slot in [Slot::Argument, Slot::ArgumentString, Slot::ArgumentSeparator] {
            if self.has(slot) && !listed {
                let message = format!("the layout `{}` is never used: no `{{arguments}}` without a codec", slot.key());
                self.gap(&layout_key(slot), message, "write `{arguments}` where the arguments go in `call`");
            }
        }
        for slot in [Slot::Argument, Slot::ArgumentString] {
            for field in [Field::Key, Field::Value] {
                if self.has(slot) && !self.prints(slot, field) {
                    let name = field.name();
                    let message = format!(
                        "the layout `{}` has no `{{{name}}}`, so the argument's {name} would be lost",
                        slot.key()
                    );
                    self.gap(&layout_key(slot), message, &format!("put `{{{name}}}` where it goes"));
                }
            }
        }
    }

    fn tools(&mut self) {
        let mut listed = false;
        for slot in Slot::ALL {
            let Some(layout) = self.format.layout(slot) else { continue };
            let bare = bare(layout.ops(), &[Field::Tools, Field::Functions]);
            listed |= bare;
            if bare && !self.has(Slot::ToolsItem) {
                let message = format!("`{}` lists the tools, but there is no layout for one tool", slot.key());
                self.gap(&layout_key(slot), message, "write `{tools:json}`, or add the layout `tools-item`");
            }
        }
        for slot in [Slot::ToolsItem, Slot::ToolsSeparator] {
            if self.has(slot) && !listed {
                let message = format!("the layout `{}` is never used: no `{{tools}}` without a codec", slot.key());
                self.gap(&layout_key(slot), message, "write `{tools}` or `{functions}` where the list goes");
            }
        }
    }

    /// Checks that no two roles have the same layout.
    fn twins(&mut self) {
        let pairs = [(Slot::User, Slot::System), (Slot::User, Slot::Assistant), (Slot::System, Slot::Assistant)];
        for (one, other) in pairs {
            if self.format.ambiguous.contains(&other) {
                continue;
            }
            if let (Some(first), Some(second)) = (self.format.layout(one), self.format.layout(other))
                && first.steps() == second.steps()
            {
                let message = format!(
                    "`{}` and `{}` have the same layout, so a parser cannot tell them apart",
                    one.key(),
                    other.key()
                );
                self.gap(&layout_key(other), message, "give each its own marker");
            }
        }
    }

    fn has(&self, slot: Slot) -> bool {
        self.format.layout(slot).is_some()
    }

    fn prints(&self, slot: Slot, field: Field) -> bool {
        self.format.layout(slot).is_some_and(|layout| layout.prints(field))
    }

    fn gap(&mut self, key: &str, message: String, help: &str) {
        let span = self.place(key);
        self.found.push(diagnostic(span, message, help));
    }

    fn place(&self, key: &str) -> Range<usize> {
        self.places.get(key).cloned().unwrap_or(0..0)
    }
}

fn layout_key(slot: Slot) -> String {
    format!("layout.{}", slot.key())
}

fn diagnostic(span: Range<usize>, message: String, help: &str) -> Diagnostic {
    Diagnostic { code: "gap", message, span, help: Some(help.to_owned()) }
}

/// Reports whether literal text contains a text.
fn spells(ops: &[Op], text: &str) -> bool {
    ops.iter().any(|op| match op {
        Op::Literal(literal) => literal.contains(text),
        Op::Group(inner) => spells(inner, text),
        _ => false,
    })
}

/// Reports whether one of these fields occurs without a codec.
fn bare(ops: &[Op], fields: &[Field]) -> bool {
    ops.iter().any(|op| match op {
        Op::Hole { field, codec: Codec::Text, .. } => fields.contains(field),
        Op::Group(inner) => bare(inner, fields),
        _ => false,
    })
}
