/// Returns text without what a terminal would obey: escape sequences, control characters other than line breaks and
/// tabs, and characters that reorder text. What a carriage return overwrites is gone, as on a terminal.
///
/// ```
/// assert_eq!(rolecall_interpreter::plain("\u{1b}[31mred\u{1b}[0m 1%\r 2%\n\u{1b}]0;title\u{7}"), " 2%\n");
/// ```
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut line = 0;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                plain.push('\n');
                line = plain.len();
            }
            '\t' => plain.push('\t'),
            '\r' => match characters.peek() {
                // Before a line break it overwrites nothing, and neither does one at the end.
                Some('\n') | Some('\r') | None => {}
                Some(_) => plain.truncate(line),
            },
            '\u{8}' => {
                if plain.len() > line {
                    plain.pop();
                }
            }
            '\u{1b}' => skip_sequence(&mut characters),
            '\u{9b}' => skip_until(&mut characters, |c| ('\u{40}'..='\u{7e}').contains(&c)),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut characters),
            character if character.is_control() => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            character => plain.push(character),
        }
    }
    plain
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips what follows an escape character.
fn skip_sequence(characters: &mut Characters<'_>) {
    match characters.peek() {
        Some('[') => {
            characters.next();
            skip_until(characters, |c| ('\u{40}'..='\u{7e}').contains(&c));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            characters.next();
            skip_string(characters);
        }
        Some('\u{20}'..='\u{2f}') => skip_until(characters, |c| ('\u{30}'..='\u{7e}').contains(&c)),
        Some('\u{30}'..='\u{7e}') => {
            characters.next();
        }
        _ => {}
    }
}

/// Skips to the end of a sequence. A line break ends one that has no end.
fn skip_until(characters: &mut Characters<'_>, is_end: impl Fn(char) -> bool) {
    while let Some(character) = characters.next_if(|c| *c != '\n') {
        if is_end(character) {
            return;
        }
    }
}

/// Skips to the end of a string for the terminal.
fn skip_string(characters: &mut Characters<'_>) {
    while let Some(character) = characters.next_if(|c| *c != '\n') {
        match character {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                characters.next_if(|c| *c == '\\');
                return;
            }
            _ => {}
        }
    }
}
