use crate::fields::Fields;

/// The tokens that open and close a text, by their usual spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub bos: Vec<String>,
    pub eos: Option<String>,
}

impl Tokens {
    /// What stands for the tokenizer's own where nothing is known of it.
    pub fn usual() -> Tokens {
        Tokens { bos: vec!["<s>".into()], eos: Some("</s>".into()) }
    }

    pub fn read(fields: &Fields<'_, '_>) -> Tokens {
        fields.refuse_others(&["bos", "eos"]);
        Tokens { bos: fields.texts("bos").unwrap_or_default(), eos: fields.text("eos") }
    }
}
