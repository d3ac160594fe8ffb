//! URL filters.

use super::{Args, FilterFn};
use crate::error::{Fault, Res};
use crate::output::Origin;
use crate::value::Value;
use crate::value::builder::{Builder, Pieces};
use crate::value::iter::{Iter, collect};
use crate::value::text::Str;
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] =
    &[("urlencode", url_encode), ("urlize", |_, _| Err(Fault::unsupported("`urlize` is not supported")))];

fn url_encode<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("urlencode", [])?;
    let value = args.subject();
    let mut out = Builder::new(world);
    if matches!(value, Value::Str(_)) || !super::tests::is_iterable(value) {
        quote(world, &mut out, &value.to_soft_str(world)?, true)?;
        return out.finish().map(Value::Str);
    }
    let pairs = if value.is_mapping() {
        let mut pairs = Vec::new();
        for index in 0..value.size(world).unwrap_or(0) {
            pairs.extend(value.entry_at(world, index)?);
        }
        pairs
    } else {
        let mut pairs = Vec::new();
        let mut iter = Iter::new(world, value)?;
        while let Some(pair) = iter.next(world)? {
            let mut pair = collect(world, &pair)?;
            match (pair.pop(), pair.pop(), pair.pop()) {
                (Some(value), Some(key), None) => pairs.push((key, value)),
                _ => return Err(Fault::value("expected key-value pairs")),
            }
        }
        pairs
    };
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push("&", Origin::Engine)?;
        }
        quote(world, &mut out, &key.to_soft_str(world)?, false)?;
        out.push("=", Origin::Engine)?;
        quote(world, &mut out, &value.to_soft_str(world)?, false)?;
    }
    out.finish().map(Value::Str)
}

fn quote<'a>(world: &World<'a>, out: &mut Builder<'a>, text: &Str<'a>, is_path: bool) -> Res<()> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let is_safe = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'~') || (is_path && byte == b'/')
    };
    world.work(text.plain().len() * 8)?;
    for part in text.all_parts() {
        if part.text.bytes().all(is_safe) {
            out.push_marked(part.text, part.origin, part.mark)?;
            continue;
        }
        let mut quoted = String::with_capacity(part.text.len() * 2);
        for byte in part.text.bytes() {
            match byte {
                byte if is_safe(byte) => quoted.push(byte as char),
                b' ' if !is_path => quoted.push('+'),
                byte => {
                    quoted.push('%');
                    quoted.push(HEX[usize::from(byte >> 4)] as char);
                    quoted.push(HEX[usize::from(byte & 15)] as char);
                }
            }
        }
        out.push_marked(&quoted, part.origin.changed(), part.mark)?;
    }
    Ok(())
}
