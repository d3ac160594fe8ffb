/// What a parser gave, one piece at a time.
pub enum Seen<'a> {
    /// More of the answer.
    Content(&'a str),
    /// A call begins.
    Name(&'a str),
    /// More of the arguments of a call, counted from 0.
    Arguments(usize, &'a str),
}

/// All that a parser gave.
#[derive(Default)]
pub struct Reply {
    /// The answer.
    pub content: String,
    /// The calls: names and arguments as JSON text.
    pub calls: Vec<(String, String)>,
    /// How many pieces of arguments there were.
    pub deltas: usize,
    /// The longest such piece, in bytes.
    pub longest: usize,
}

impl Reply {
    /// Takes the next piece.
    pub fn add(&mut self, seen: Seen<'_>) {
        match seen {
            Seen::Content(text) => self.content.push_str(text),
            Seen::Name(name) => self.calls.push((name.to_owned(), String::new())),
            Seen::Arguments(_, "") => {}
            Seen::Arguments(call, text) => {
                self.deltas += 1;
                self.longest = self.longest.max(text.len());
                if let Some((_, arguments)) = self.calls.get_mut(call) {
                    arguments.push_str(text);
                }
            }
        }
    }
}

/// What a timed run adds up: that each piece was there.
#[derive(Default)]
pub struct Count {
    /// Pieces.
    pub pieces: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Count {
    /// Takes the next piece.
    pub fn add(&mut self, seen: Seen<'_>) {
        self.pieces += 1;
        self.bytes += match seen {
            Seen::Content(text) | Seen::Name(text) | Seen::Arguments(_, text) => text.len(),
        };
    }
}
