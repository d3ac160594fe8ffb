/// How a folder that holds one of the family's models is recognised, whatever it is called.
///
/// ```
/// use rolecall_format::Identity;
/// let identity = Identity { template: vec!["<|im|>".into()], without: vec!["tools".into()], ..Identity::default() };
/// assert!(identity.fits_template("{{ '<|im|>' + message['role'] }}"));
/// assert!(!identity.fits_template("{{ '<|im|>' + tools }}"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Texts that all stand in the model's chat template.
    pub template: Vec<String>,
    /// Texts none of which stands there.
    pub without: Vec<String>,
    /// Tokens that its tokenizer has beside the learned vocabulary, all of them.
    pub tokens: Vec<String>,
    /// Names of its code, one of which its config gives.
    pub architectures: Vec<String>,
}

impl Identity {
    /// Whether a chat template is this family's. A newline may be written as `\n`, quotes may be single or double, and
    /// comments do not count.
    pub fn fits_template(&self, template: &str) -> bool {
        let template = plain(template);
        let stands = |text: &String| template.contains(&plain(text));
        !self.template.is_empty() && self.template.iter().all(stands) && !self.without.iter().any(stands)
    }
}

/// A template without its comments, each newline and quote written in one way.
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
