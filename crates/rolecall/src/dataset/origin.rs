//! Where the parts of a request come from in a dataset's value.

use rolecall_conversation::Place;

/// The paths that the parts of a request come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origins {
    /// The path of each message, if each comes from one place.
    pub paths: Vec<String>,
    /// The origins of each message's fields that come from another place than `paths` says.
    pub messages: Vec<Vec<FieldOrigin>>,
    /// The origins of the request's other fields.
    pub request: Vec<FieldOrigin>,
}

/// The path that a field comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldOrigin {
    /// The field. Empty for a whole message.
    field: String,
    path: String,
}

impl Origins {
    pub(super) fn of_paths(paths: Vec<String>) -> Origins {
        Origins { paths, ..Origins::default() }
    }

    /// Translates a place in the request to one in the dataset's value.
    pub(super) fn original(&self, place: &Place) -> Place {
        let origins = match place.message {
            Some(message) => self.messages.get(message),
            None => Some(&self.request),
        };
        let field = &*place.field;
        let nearest = origins.into_iter().flatten().filter(|origin| origin.holds(field));
        if let Some(nearest) = nearest.max_by_key(|origin| origin.field.len()) {
            return Place::field(nearest.path_of(field));
        }
        let Some(path) = place.message.and_then(|message| self.paths.get(message)) else { return place.clone() };
        // Only a path that ends in a turn has fields. Any other path is the text itself.
        let is_turn = path.ends_with(']');
        let below = match &*place.field {
            "" => "",
            _ if !is_turn => "",
            "role" if path.starts_with("conversations") => "from",
            "content" if path.starts_with("conversations") => "value",
            field => field,
        };
        Place::field(if below.is_empty() { path.clone() } else { format!("{path}.{below}") })
    }
}

impl FieldOrigin {
    /// The path of a whole message.
    pub(super) fn whole(path: String) -> FieldOrigin {
        FieldOrigin { field: String::new(), path }
    }

    pub(super) fn field(field: impl Into<String>, path: String) -> FieldOrigin {
        FieldOrigin { field: field.into(), path }
    }

    /// Reports whether a field is this one or below it.
    fn holds(&self, field: &str) -> bool {
        match field.strip_prefix(self.field.as_str()) {
            Some(below) => self.field.is_empty() || below.is_empty() || below.starts_with(['.', '[']),
            None => false,
        }
    }

    fn path_of(&self, field: &str) -> String {
        match self.field.is_empty() && !field.is_empty() {
            true => format!("{}.{field}", self.path),
            false => self.path.clone(),
        }
    }
}
