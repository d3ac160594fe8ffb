/// The style of a piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text without a style.
    Plain,
    /// The word that announces an error.
    Error,
    /// The word that announces a warning.
    Warning,
    /// A heading or label.
    Strong,
    /// Lines and labels around the content.
    Frame,
    /// A control token that the format wrote.
    Control,
    /// Text that spells a control token.
    Spelled,
    /// Text that became a control token under the reference encoding.
    Forged,
    /// Literal text of the format.
    Format,
    /// Marks for white space and token boundaries.
    Mark,
    /// Text of a system message.
    System,
    /// Text of a user's message.
    User,
    /// Text of an assistant's message.
    Assistant,
    /// Text of a tool's message.
    Tool,
    /// The definition of an offered tool.
    Offered,
    /// The value of an option.
    Option,
}

impl Style {
    /// Returns the parameters of the terminal's "select graphic rendition" sequence.
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Error => "1;31",
            Style::Warning => "1;33",
            Style::Strong => "1",
            Style::Frame => "34",
            Style::Control => "7",
            Style::Spelled => "4;31",
            Style::Forged => "7;31",
            Style::Format | Style::Mark => "90",
            Style::System => "35",
            Style::User => "32",
            Style::Assistant => "36",
            Style::Tool => "33",
            Style::Offered => "94",
            Style::Option => "95",
        }
    }
}

/// Writes text with or without colors.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether there are colors.
    pub colored: bool,
}

impl Paint {
    /// Appends a text in a style.
    pub fn push(self, out: &mut String, style: Style, text: &str) {
        if !self.colored || style == Style::Plain || text.is_empty() {
            return out.push_str(text);
        }
        out.push_str("\u{1b}[");
        out.push_str(style.code());
        out.push('m');
        out.push_str(text);
        out.push_str("\u{1b}[0m");
    }

    /// Appends a text in a style, underlined.
    pub fn push_underlined(self, out: &mut String, style: Style, text: &str) {
        if !self.colored || text.is_empty() {
            return out.push_str(text);
        }
        out.push_str("\u{1b}[4m");
        self.push(out, style, text);
        if style == Style::Plain {
            out.push_str("\u{1b}[0m");
        }
    }

    /// Returns a text in a style.
    pub fn text(self, style: Style, text: &str) -> String {
        let mut out = String::new();
        self.push(&mut out, style, text);
        out
    }
}
