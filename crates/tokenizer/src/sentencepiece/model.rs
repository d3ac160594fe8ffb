use std::collections::HashMap;

use super::super::Error;
use super::protobuf::{FieldValue, Fields};

/// A sentencepiece model file, validated as the library does.
pub(super) struct Model {
    pub pieces: Vec<VocabularyPiece>,
    pub algorithm: Algorithm,
    pub unknown: u32,
    /// The pieces for the 256 bytes, if characters without a piece are spelled in bytes.
    pub byte_pieces: Option<Box<[u32; 256]>>,
    pub whitespace_as_suffix: bool,
    pub normalizer: NormalizerSpec,
    ids: HashMap<String, u32>,
}

pub(super) struct VocabularyPiece {
    pub text: String,
    pub score: f32,
    pub kind: PieceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl PieceKind {
    /// Reports whether merging and search use this piece. Text never encodes to an unused piece,
    /// but merges pass through it.
    pub fn is_learned(self) -> bool {
        matches!(self, Self::Normal | Self::Unused)
    }
}

#[derive(Clone, Copy)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
}

pub(super) struct NormalizerSpec {
    pub charsmap: Vec<u8>,
    pub add_dummy_prefix: bool,
    pub remove_extra_whitespaces: bool,
    pub escape_whitespaces: bool,
}

impl Model {
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut pieces: Vec<VocabularyPiece> = Vec::new();
        let mut trainer = Trainer { model_type: 1, byte_fallback: false, whitespace_as_suffix: false };
        // sentencepiece_model.proto: these three default to true.
        let mut normalizer = NormalizerSpec {
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        };
        let mut file = Fields::of(bytes);
        while let Some((number, value, offset)) = file.next_field()? {
            match (number, value) {
                (1, FieldValue::Bytes(message)) => pieces.push(read_piece(file.inner(message), pieces.len())?),
                (2, FieldValue::Bytes(message)) => read_trainer(file.inner(message), &mut trainer)?,
                (3, FieldValue::Bytes(message)) => read_normalizer(file.inner(message), &mut normalizer)?,
                (1..=3, _) | (0, _) => return Err(no_model(format!("byte {offset} does not begin a message"))),
                _ => {}
            }
        }
        if pieces.is_empty() {
            return Err(no_model("it contains no pieces".to_owned()));
        }
        let algorithm = match trainer.model_type {
            1 => Algorithm::Unigram,
            2 => Algorithm::Bpe,
            3 => return Err(Error::unsupported("trainer_spec.model_type", "word")),
            4 => return Err(Error::unsupported("trainer_spec.model_type", "char")),
            other => return Err(Error::unsupported("trainer_spec.model_type", other.to_string())),
        };
        if trainer.byte_fallback {
            // sentencepiece 0.2.1: with byte fallback, a piece that is a NUL character is unused.
            for piece in pieces.iter_mut().filter(|piece| piece.text == "\0") {
                piece.kind = PieceKind::Unused;
            }
        }
        let ids = index_pieces(&pieces)?;
        Ok(Self {
            unknown: find_unknown(&pieces)?,
            byte_pieces: find_byte_pieces(&pieces, &ids, trainer.byte_fallback)?,
            whitespace_as_suffix: trainer.whitespace_as_suffix,
            pieces,
            algorithm,
            normalizer,
            ids,
        })
    }

    pub fn piece_id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }
}

struct Trainer {
    model_type: u64,
    byte_fallback: bool,
    whitespace_as_suffix: bool,
}

fn read_piece(mut fields: Fields<'_>, index: usize) -> Result<VocabularyPiece, Error> {
    let place = || format!("pieces[{index}]");
    let mut piece = VocabularyPiece { text: String::new(), score: 0.0, kind: PieceKind::Normal };
    while let Some((number, value, _)) = fields.next_field()? {
        match (number, value) {
            (1, FieldValue::Bytes(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| Error::malformed(place(), "the text is not UTF-8"))?;
                text.clone_into(&mut piece.text);
            }
            (2, FieldValue::Float(score)) => piece.score = score,
            (3, FieldValue::Number(kind)) => {
                piece.kind = match kind {
                    1 => PieceKind::Normal,
                    2 => PieceKind::Unknown,
                    3 => PieceKind::Control,
                    4 => PieceKind::UserDefined,
                    5 => PieceKind::Unused,
                    6 => PieceKind::Byte,
                    other => return Err(Error::malformed(place(), format!("unknown piece type {other}"))),
                }
            }
            (1..=3, _) => return Err(Error::malformed(place(), "a field has the wrong type")),
            _ => {}
        }
    }
    if piece.text.is_empty() || !piece.score.is_finite() {
        return Err(Error::malformed(place(), format!("expected a text and a score, found {:?}", piece.text)));
    }
    Ok(piece)
}

fn read_trainer(mut fields: Fields<'_>, trainer: &mut Trainer) -> Result<(), Error> {
    while let Some((number, value, _)) = fields.next_field()? {
        match (number, value) {
            (3, FieldValue::Number(kind)) => trainer.model_type = kind,
            (24, FieldValue::Number(flag)) => trainer.whitespace_as_suffix = flag != 0,
            (35, FieldValue::Number(flag)) => trainer.byte_fallback = flag != 0,
            (3 | 24 | 35, _) => return Err(Error::malformed("trainer_spec", "a field has the wrong type")),
            _ => {}
        }
    }
    Ok(())
}

fn read_normalizer(mut fields: Fields<'_>, spec: &mut NormalizerSpec) -> Result<(), Error> {
    while let Some((number, value, _)) = fields.next_field()? {
        match (number, value) {
            (2, FieldValue::Bytes(charsmap)) => spec.charsmap = charsmap.to_vec(),
            (3, FieldValue::Number(flag)) => spec.add_dummy_prefix = flag != 0,
            (4, FieldValue::Number(flag)) => spec.remove_extra_whitespaces = flag != 0,
            (5, FieldValue::Number(flag)) => spec.escape_whitespaces = flag != 0,
            (2..=5, _) => return Err(Error::malformed("normalizer_spec", "a field has the wrong type")),
            _ => {}
        }
    }
    Ok(())
}

fn index_pieces(pieces: &[VocabularyPiece]) -> Result<HashMap<String, u32>, Error> {
    let mut ids = HashMap::with_capacity(pieces.len());
    for (id, piece) in (0..).zip(pieces) {
        if ids.insert(piece.text.clone(), id).is_some() {
            return Err(Error::malformed(format!("pieces[{id}]"), format!("duplicate piece `{}`", piece.text)));
        }
    }
    Ok(ids)
}

fn find_unknown(pieces: &[VocabularyPiece]) -> Result<u32, Error> {
    let mut unknown = (0..).zip(pieces).filter(|(_, piece)| piece.kind == PieceKind::Unknown);
    match (unknown.next(), unknown.next()) {
        (Some((id, _)), None) => Ok(id),
        (None, _) => Err(Error::malformed("pieces", "expected one unknown piece, found none")),
        (Some(_), Some(_)) => Err(Error::malformed("pieces", "expected one unknown piece, found several")),
    }
}

fn find_byte_pieces(
    pieces: &[VocabularyPiece],
    ids: &HashMap<String, u32>,
    byte_fallback: bool,
) -> Result<Option<Box<[u32; 256]>>, Error> {
    if !byte_fallback {
        let has_bytes = pieces.iter().any(|piece| piece.kind == PieceKind::Byte);
        let why = "found a byte piece, but trainer_spec.byte_fallback is false";
        return if has_bytes { Err(Error::malformed("pieces", why)) } else { Ok(None) };
    }
    let mut table = Box::new([0; 256]);
    for (byte, entry) in (0u8..=u8::MAX).zip(table.iter_mut()) {
        let name = format!("<0x{byte:02X}>");
        let id = ids.get(&name).filter(|&&id| pieces[id as usize].kind == PieceKind::Byte);
        *entry = *id.ok_or_else(|| Error::malformed("pieces", format!("expected the byte piece `{name}`")))?;
    }
    Ok(Some(table))
}

fn no_model(why: String) -> Error {
    Error::NotRecognized { expected: "a sentencepiece model", why }
}
