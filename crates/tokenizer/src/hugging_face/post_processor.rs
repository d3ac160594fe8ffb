use serde_json::Value;

/// The tokens that the reference adds around a prompt.
#[derive(Default)]
pub(super) struct Around {
    pub before: Option<u32>,
    pub behind: Option<u32>,
}

/// Reads the tokens from a `post_processor`. Returns none if it adds nothing or is not understood.
pub(super) fn tokens_around(processor: &Value) -> Around {
    match processor["type"].as_str() {
        Some("TemplateProcessing") => from_template(processor),
        Some("BertProcessing" | "RobertaProcessing") => {
            Around { before: as_id(&processor["cls"][1]), behind: as_id(&processor["sep"][1]) }
        }
        Some("Sequence") => processor["processors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(tokens_around)
            .find(|around| around.before.is_some() || around.behind.is_some())
            .unwrap_or_default(),
        _ => Around::default(),
    }
}

fn from_template(processor: &Value) -> Around {
    let Some(pieces) = processor["single"].as_array() else { return Around::default() };
    let id = |piece: Option<&Value>| {
        let name = piece?["SpecialToken"]["id"].as_str()?;
        as_id(&processor["special_tokens"][name]["ids"][0])
    };
    Around { before: id(pieces.first()), behind: id(pieces.last()) }
}

fn as_id(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}
