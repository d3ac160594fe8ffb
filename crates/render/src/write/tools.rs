//! The holes `tools`, `functions`, `tool` and `function`.

use rolecall_conversation::{Json, Tool};
use rolecall_format::codec::literal;
use rolecall_format::{Codec, Field, Slot, ToolTexts, sources};
use rolecall_text::Text;

use super::{PromptWriter, Scene};

impl PromptWriter<'_> {
    pub(super) fn tools(&mut self, field: Field, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        let Some(offer) = scene.offer() else { return };
        let texts = self.format.rules.tool_texts == ToolTexts::Written && *codec != Codec::Names;
        let functions = offer.tools.iter().enumerate().filter(|(_, tool)| match tool {
            Tool::Function { .. } => true,
            Tool::Text(_) => texts,
            Tool::CodeInterpreter => false,
        });
        if let Codec::Python | Codec::Names = codec {
            let mut written = 0;
            for (at, tool) in functions {
                out.push(if written == 0 { "[" } else { ", " }, sources::FORMAT);
                written += 1;
                let value = match codec {
                    Codec::Names => Json::from(tool.name()),
                    _ => self.described(tool_value(field == Field::Tools, tool), scene),
                };
                out.push(&literal::repr(&value), self.tool_source(offer, at));
            }
            out.push(if written == 0 { "[]" } else { "]" }, sources::FORMAT);
            return;
        }
        let Codec::Json(style) = codec else {
            if let Some(layout) = self.format.layout(Slot::ToolsItem) {
                for (number, (at, tool)) in functions.enumerate() {
                    if number > 0
                        && let Some(between) = self.format.layout(Slot::ToolsSeparator)
                    {
                        let _ = self.steps(between.steps(), scene, out);
                    }
                    let scene = Scene { tool: Some((at, tool)), ..*scene };
                    let _ = self.steps(layout.steps(), &scene, out);
                }
            }
            return;
        };
        let separator = style.layout().item_separator;
        let line =
            |level: usize| style.indent.map_or(String::new(), |spaces| format!("\n{}", " ".repeat(spaces * level)));
        let (inner, outer) = (line(style.level + 1), line(style.level));
        let (open, between, close) = (format!("[{inner}"), format!("{separator}{inner}"), format!("{outer}]"));
        let mut written = 0;
        for (at, tool) in functions {
            out.push(if written == 0 { &open } else { &between }, sources::FORMAT);
            let source = self.tool_source(offer, at);
            let value = self.described(tool_value(field == Field::Tools, tool), scene);
            if !self.may_indent(style, &value, 1, || offer.place(at)) {
                return;
            }
            out.push(&style.print_deeper(&value, 1), source);
            written += 1;
        }
        out.push(if written == 0 { "[]" } else { &close }, sources::FORMAT);
    }

    pub(super) fn tool(&mut self, field: Field, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        let (Some((at, tool)), Some(offer)) = (scene.tool, scene.offer()) else { return };
        let source = self.tool_source(offer, at);
        // LMFlow: a tool's text is joined to the others as it stands.
        if let Tool::Text(text) = tool {
            return out.push(text, source);
        }
        let value = self.described(tool_value(field == Field::Tool, tool), scene);
        match codec {
            Codec::Python => out.push(&literal::repr(&value), source),
            Codec::Json(style) if self.may_indent(style, &value, 0, || offer.place(at)) => {
                out.push(&style.print(&value), source);
            }
            _ => {}
        }
    }

    /// Returns the tool with its description written by the layout `tool-description`.
    fn described(&mut self, mut value: Json, scene: &Scene<'_>) -> Json {
        let Some(layout) = self.format.layout(Slot::ToolDescription) else { return value };
        let function = match &mut value {
            Json::Object(tool) if matches!(tool.get("function"), Some(Json::Object(_))) => tool.get_mut("function"),
            other => Some(other),
        };
        if let Some(Json::Object(function)) = function
            && let (Some(Json::String(name)), Some(Json::String(description))) =
                (function.get("name"), function.get("description"))
        {
            let scene = Scene { description: Some(description), tool_name: Some(name), ..*scene };
            let text = self.apart(|writer, text| {
                let _ = writer.steps(layout.steps(), &scene, text);
            });
            let text = text.into_plain();
            function.insert("description", Json::String(text));
        }
        value
    }
}

pub(super) fn tool_value(wrapped: bool, tool: &Tool) -> Json {
    if let Tool::Text(text) = tool {
        return Json::from(text.as_str());
    }
    let function = || tool.function().cloned().map(Json::Object);
    if wrapped { tool.wrapped() } else { function() }.unwrap_or(Json::Null)
}
