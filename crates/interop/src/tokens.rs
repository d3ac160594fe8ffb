use crate::fields::Fields;

/// The texts of the tokens at the start (BOS) and the end (EOS) of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub bos: Vec<String>,
    pub eos: Option<String>,
}

impl Tokens {
    /// Returns the most common tokens, for use while the tokenizer is unknown.
    pub fn usual() -> Tokens {
        Tokens { bos: vec!["<s>".into()], eos: Some("</s>".into()) }
    }

    pub fn read(fields: &Fields<'_, '_>) -> Tokens {
        fields.refuse_others(&["bos", "eos"]);
        Tokens { bos: fields.texts("bos").unwrap_or_default(), eos: fields.text("eos") }
    }
}
