/// The features that identify a folder of one of the family's models, regardless of its name.
///
/// ```
/// use rolecall_format::Identity;
/// let identity = Identity { template: vec!["<|im|>".into()], without: vec!["tools".into()], ..Identity::default() };
/// assert!(identity.fits_template("{{ '<|im|>' + message['role'] }}"));
/// assert!(!identity.fits_template("{{ '<|im|>' + tools }}"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Texts that must all occur in the model's chat template.
    pub template: Vec<String>,
    /// Texts that must not occur in the chat template.
    pub without: Vec<String>,
    /// Tokens that the tokenizer must all have in addition to the learned vocabulary.
    pub tokens: Vec<String>,
    /// Architecture names. The model's config names one of them.
    pub architectures: Vec<String>,
}

impl Identity {
    /// Reports whether a chat template belongs to this family. `\n` equals a newline, single quotes
    /// equal double quotes, and comments are ignored.
    pub fn fits_template(&self, template: &str) -> bool {
        let template = plain(template);
        let stands = |text: &String| template.contains(&plain(text));
        !self.template.is_empty() && self.template.iter().all(stands) && !self.without.iter().any(stands)
    }
}

/// Returns a template without its comments and with uniform newlines and quotes.
fn plain(template: &str) -> String {
    let mut plain = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find("{#") {
        plain.push_str(&rest[..open]);
        rest = rest[open..].split_once("#}").map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain.replace("\\n", "\n").replace('"', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_quotes_and_comments_do_not_tell_templates_apart() {
        let identity = Identity {
            template: vec!["'<|user|>\n' + content".into()],
            without: vec!["tool".into()],
            ..Identity::default()
        };
        let cases = [
            ("{{ '<|user|>\\n' + content }}", true),
            ("{{ \"<|user|>\n\" + content }}", true),
            ("{# no tools #}{{ '<|user|>\\n' + content }}{# open", true),
            ("{{ '<|user|>' + content }}", false),
            ("{{ '<|user|>\\n' + content + tool }}", false),
        ];
        for (template, fits) in cases {
            assert_eq!(identity.fits_template(template), fits, "{template}");
        }
        assert!(!Identity::default().fits_template("anything"));
    }
}
