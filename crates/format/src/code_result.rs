/// How the result of code is written for a family's models, by whatever runs the code. The layouts write it as it is.
///
/// ```
/// use rolecall_format::CodeResult;
/// let usual = CodeResult::default();
/// assert_eq!(usual.whole(&usual.picture("/mnt/data/a.png")), "![image](/mnt/data/a.png)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeResult {
    /// The whole result, with `{text}` for what the code printed and returned.
    pub result: String,
    /// A picture, with `{path}` for its path.
    pub picture: String,
}

impl Default for CodeResult {
    fn default() -> CodeResult {
        CodeResult { result: "{text}".to_owned(), picture: "![image]({path})".to_owned() }
    }
}

impl CodeResult {
    /// Returns the whole result around its text.
    pub fn whole(&self, text: &str) -> String {
        self.result.replacen("{text}", text, 1)
    }

    /// Returns the text of a picture.
    pub fn picture(&self, path: &str) -> String {
        self.picture.replacen("{path}", path, 1)
    }
}
