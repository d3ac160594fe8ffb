//! The place in a template that wrote a byte of its output.

use rolecall_conversation::Conversation;
use rolecall_jinja as jinja;

use super::{ChatTemplate, TemplateOptions, adapt, left_to_tokenizer, run};
use crate::Error;

/// Returns the offset in the template's source of a literal.
pub(super) fn source_of(program: &jinja::Template, origin: jinja::Origin) -> Option<usize> {
    let jinja::Origin::Literal { id, offset } = origin else { return None };
    program.literal(id).map(|literal| {
        // In a string with escapes, character offsets differ from source offsets.
        literal.offset + offset.get().filter(|_| literal.is_data).unwrap_or(0)
    })
}

/// Returns the place in a template that wrote a byte of a prompt ([`Writer::spot_at`](crate::Writer::spot_at)).
pub(crate) fn spot_at(
    conversation: &Conversation,
    template: &ChatTemplate,
    options: &TemplateOptions,
    byte: usize,
) -> Result<Option<jinja::Spot>, Error> {
    if template.code.is_some() {
        return Ok(None);
    }
    let (adapted, _) = adapt(conversation, template, options)?;
    let (inputs, output, program) = run(conversation, template, options, &adapted, None)?;
    let is_ours = |piece: &jinja::Piece<'_>| match piece.origin {
        jinja::Origin::Input { tag, .. } => inputs.origin(tag).is_none(),
        jinja::Origin::Literal { .. } | jinja::Origin::Engine => true,
    };
    let is_removed = |bos: &&str| {
        output.text().starts_with(bos)
            && output.pieces().take_while(|piece| piece.start < bos.len()).all(|piece| is_ours(&piece))
    };
    let at = byte + left_to_tokenizer(template, options).filter(is_removed).map_or(0, str::len);
    let found = output.pieces().find(|piece| piece.start + piece.text.len() > at);
    let Some(piece) = found else { return Ok(None) };
    // A literal of several lines was written from its start.
    let within = at - piece.start;
    if let Some(start) = source_of(&program, piece.origin) {
        let is_data = matches!(piece.origin, jinja::Origin::Literal { id, offset }
            if offset.get().is_some() && program.literal(id).is_some_and(|literal| literal.is_data));
        return Ok(Some(program.spot(if is_data { start + within } else { start })));
    }
    // The output is one byte too long for the expression that writes the byte.
    let mut short = options.clone();
    short.limits.output_bytes = at;
    Ok(match run(conversation, template, &short, &adapted, None) {
        Err(Error::Template { error, .. }) if error.kind() == OUTPUT_IS_FULL => {
            Some(program.spot(error.place().offset))
        }
        _ => None,
    })
}

/// The error of a rendering that is too long.
const OUTPUT_IS_FULL: jinja::ErrorKind = jinja::ErrorKind::Limit(jinja::LimitKind::Output);
