use fastrand::Rng;

/// A damaged output with inserted words that occur only once.
#[derive(Clone, Debug)]
pub struct Mutated {
    /// The text.
    pub text: String,
    /// The words, each of which must be emitted once or reported.
    pub words: Vec<String>,
}

/// Damages an output in one to four ways, then inserts words.
pub fn mutate(output: &str, marks: &[String], rng: &mut Rng) -> Mutated {
    let mut text = output.to_owned();
    for _ in 0..rng.usize(1..5) {
        text = damage(&text, marks, rng);
        if text.len() > 20_000 {
            break;
        }
    }
    let words: Vec<String> = (0..rng.usize(..3)).map(|at| format!("zq{at}x{}w", letters(rng))).collect();
    for word in &words {
        let at = border(&text, rng);
        text.insert_str(at, word);
    }
    // A word into which another one was inserted is gone.
    let words = words.into_iter().filter(|word| text.contains(word.as_str())).collect();
    Mutated { text, words }
}

fn damage(text: &str, marks: &[String], rng: &mut Rng) -> String {
    let (from, to) = {
        let (one, other) = (border(text, rng), border(text, rng));
        (one.min(other), one.max(other))
    };
    let mark = if marks.is_empty() { "</s>" } else { marks[rng.usize(..marks.len())].as_str() };
    match rng.u8(..11) {
        0 => text[..from].to_owned(),
        1 => text[from..].to_owned(),
        2 => [&text[..from], &text[to..]].concat(),
        3 => [&text[..to], &text[from..]].concat(),
        4 | 5 => [&text[..from], mark, &text[from..]].concat(),
        6 => text.replacen(mark, "", 1),
        7 => text.replacen(mark, &mark.repeat(2), 1),
        8 => {
            let other = if marks.is_empty() { "" } else { marks[rng.usize(..marks.len())].as_str() };
            text.replacen(mark, other, 1)
        }
        9 => {
            let odd = [
                "{", "}", "\"", "\\", "'", "<", ">", "[", "]", ",", ":", "\u{0}", "\u{fffd}", "é", "\n", " ", "</",
                "\\u12",
            ];
            [&text[..from], odd[rng.usize(..odd.len())], &text[from..]].concat()
        }
        _ => {
            // Replace one character.
            let mut characters: Vec<char> = text.chars().collect();
            if !characters.is_empty() {
                let at = rng.usize(..characters.len());
                characters[at] = char::from(rng.u8(32..127));
            }
            characters.into_iter().collect()
        }
    }
}

/// Returns a random position between two characters.
fn border(text: &str, rng: &mut Rng) -> usize {
    let mut at = rng.usize(..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn letters(rng: &mut Rng) -> String {
    (0..6).map(|_| char::from(b'a' + rng.u8(..26))).collect()
}
