use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};

const ESCAPED_SPACE: char = '\u{2581}';

/// Returns the pre-tokenizer to use for a text that is not at the start of the prompt, or `None` if
/// it is the same.
///
/// The crate detects the start by the offset in its input string, and a run always starts at offset
/// 0.
pub(super) fn inside(pre_tokenizer: &PreTokenizerWrapper) -> Option<PreTokenizerWrapper> {
    let mut inside = pre_tokenizer.clone();
    clear_first_prefix(&mut inside).then_some(inside)
}

/// Reports whether a space is added before a text that does not begin with one.
pub(super) fn adds(normalizer: Option<&NormalizerWrapper>, pre_tokenizer: Option<&PreTokenizerWrapper>) -> bool {
    normalizer.is_some_and(prepends) || pre_tokenizer.is_some_and(puts_space_before)
}

fn prepends(normalizer: &NormalizerWrapper) -> bool {
    match normalizer {
        NormalizerWrapper::Prepend(prepend) => prepend.prepend == ESCAPED_SPACE.to_string(),
        NormalizerWrapper::Sequence(sequence) => sequence.as_ref().iter().any(prepends),
        _ => false,
    }
}

fn puts_space_before(pre_tokenizer: &PreTokenizerWrapper) -> bool {
    match pre_tokenizer {
        PreTokenizerWrapper::Metaspace(metaspace) => metaspace.prepend_scheme != PrependScheme::Never,
        PreTokenizerWrapper::ByteLevel(byte_level) => byte_level.add_prefix_space,
        PreTokenizerWrapper::Sequence(sequence) => sequence.as_ref().iter().any(puts_space_before),
        _ => false,
    }
}

fn clear_first_prefix(pre_tokenizer: &mut PreTokenizerWrapper) -> bool {
    match pre_tokenizer {
        PreTokenizerWrapper::Metaspace(metaspace) if metaspace.prepend_scheme == PrependScheme::First => {
            metaspace.prepend_scheme = PrependScheme::Never;
            true
        }
        PreTokenizerWrapper::Sequence(sequence) => {
            let changed = sequence.as_mut().iter_mut().map(clear_first_prefix);
            changed.filter(|&changed| changed).count() > 0
        }
        _ => false,
    }
}

/// Moves the prefix space to where transformers puts it for a config with a `legacy` flag.
///
/// Such files use a normalizer that prepends a space to every section, even to a section that
/// begins with a space. transformers 5 replaces it with a pre-tokenizer, which adds no second
/// space.
pub(super) fn modernize(
    normalizer: &mut Option<NormalizerWrapper>,
    pre_tokenizer: &mut Option<PreTokenizerWrapper>,
    legacy: bool,
    add_prefix_space: Option<bool>,
) {
    if pre_tokenizer.is_some() || !normalizer.as_ref().is_some_and(escapes_spaces_behind_a_prefix) {
        return;
    }
    let scheme = match (add_prefix_space, legacy) {
        (Some(false), _) => PrependScheme::Never,
        (_, true) => PrependScheme::Always,
        (_, false) => PrependScheme::First,
    };
    *normalizer = None;
    *pre_tokenizer = Some(PreTokenizerWrapper::Metaspace(Metaspace::new(ESCAPED_SPACE, scheme, false)));
}

fn escapes_spaces_behind_a_prefix(normalizer: &NormalizerWrapper) -> bool {
    let NormalizerWrapper::Sequence(sequence) = normalizer else { return false };
    let [NormalizerWrapper::Prepend(prepend), NormalizerWrapper::Replace(replace)] = sequence.as_ref() else {
        return false;
    };
    let escaped = ESCAPED_SPACE.to_string();
    let space = tokenizers::normalizers::Replace::new(" ", escaped.as_str());
    prepend.prepend == escaped && space.is_ok_and(|space| space == *replace)
}
