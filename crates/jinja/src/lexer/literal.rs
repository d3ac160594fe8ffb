//! Numbers and strings in a template.

/// Returns the length of a digit sequence, in which single underscores may separate digits.
pub(super) fn digits(text: &str, allowed: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(&byte) if allowed(byte) => at += 1,
            Some(b'_') if at > 0 && bytes.get(at + 1).is_some_and(|&byte| allowed(byte)) => at += 1,
            _ => return at,
        }
    }
}

pub(super) fn float_length(text: &str) -> Option<usize> {
    let digit = |byte: u8| byte.is_ascii_digit();
    let mut at = digits(text, digit);
    let mut is_float = false;
    if text[at..].starts_with('.') {
        let fraction = digits(&text[at + 1..], digit);
        if fraction > 0 {
            at += 1 + fraction;
            is_float = true;
        }
    }
    if text[at..].starts_with(['e', 'E']) {
        let sign = usize::from(text[at + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[at + 1 + sign..], digit);
        if exponent > 0 {
            at += 1 + sign + exponent;
            is_float = true;
        }
    }
    is_float.then_some(at)
}

pub(super) fn integer_length(text: &str) -> (usize, u32) {
    let radixes: [(&[&str], u32); 3] = [(&["0b", "0B"], 2), (&["0o", "0O"], 8), (&["0x", "0X"], 16)];
    for (prefixes, radix) in radixes {
        if let Some(rest) = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            let skip = usize::from(rest.starts_with('_'));
            let length = digits(&rest[skip..], |byte| (byte as char).is_digit(radix));
            if length > 0 {
                return (2 + skip + length, radix);
            }
        }
    }
    match text.starts_with('0') {
        true => (digits(text, |byte| byte == b'0'), 10),
        false => (digits(text, |byte| byte.is_ascii_digit()), 10),
    }
}

/// Resolves Python's escapes and keeps unknown ones as written.
pub(super) fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else { return Err("expected an escaped character after `\\`".to_owned()) };
        rest = &rest[c.len_utf8()..];
        let simple = match c {
            '\n' => continue,
            '\\' | '\'' | '"' => c,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' => {
                let more = rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let value = u32::from_str_radix(&format!("{c}{}", &rest[..more]), 8).unwrap_or_default();
                rest = &rest[more..];
                char::from_u32(value).unwrap_or_default()
            }
            'x' => hex_escape(&mut rest, 2)?,
            'u' => hex_escape(&mut rest, 4)?,
            'U' => hex_escape(&mut rest, 8)?,
            'N' => return Err("characters by name (`\\N{..}`) are not supported".to_owned()),
            other => {
                out.push('\\');
                other
            }
        };
        out.push(simple);
    }
    out.push_str(rest);
    Ok(out)
}

pub(super) fn hex_escape(rest: &mut &str, digits: usize) -> Result<char, String> {
    let value = rest.get(..digits).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let Some(value) = value.and_then(|hex| u32::from_str_radix(hex, 16).ok()) else {
        return Err(format!("expected {digits} hexadecimal digits in the escape"));
    };
    *rest = &rest[digits..];
    // Python would produce a lone surrogate, which a prompt cannot contain.
    char::from_u32(value).ok_or_else(|| format!("the escape {value:#x} is not a character"))
}
