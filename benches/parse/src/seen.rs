/// A piece of a parser's result.
pub enum Seen<'a> {
    /// More content.
    Content(&'a str),
    /// The start of a call.
    Name(&'a str),
    /// More of the arguments of a call, counted from 0.
    Arguments(usize, &'a str),
}

/// The result of a parser.
#[derive(Default)]
pub struct Reply {
    /// The content.
    pub content: String,
    /// The calls: names, and arguments as JSON text.
    pub calls: Vec<(String, String)>,
    /// The number of pieces of arguments.
    pub deltas: usize,
    /// The longest such piece, in bytes.
    pub longest: usize,
}

impl Reply {
    /// Adds the next piece.
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

/// The sum over a timed run, which proves that each piece was produced.
#[derive(Default)]
pub struct Count {
    /// The number of pieces.
    pub pieces: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Count {
    /// Adds the next piece.
    pub fn add(&mut self, seen: Seen<'_>) {
        self.pieces += 1;
        self.bytes += match seen {
            Seen::Content(text) | Seen::Name(text) | Seen::Arguments(_, text) => text.len(),
        };
    }
}
