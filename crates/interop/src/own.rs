use rolecall_format::{BoundaryToken, Control};

/// Returns the tokenizer's BOS and EOS tokens as control tokens of a format.
pub(crate) fn controls(bos: &[String], eos: Option<&str>) -> Vec<Control> {
    let opening = bos.iter().map(|text| Control {
        text: text.clone(),
        bos: true,
        own: Some(BoundaryToken::Bos),
        ..Control::default()
    });
    let closing = eos.map(|text| Control {
        text: text.to_owned(),
        ends_turn: true,
        own: Some(BoundaryToken::Eos),
        ..Control::default()
    });
    opening.chain(closing).collect()
}
