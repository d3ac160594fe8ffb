use std::ops::BitOr;

use rolecall_conversation::{Json, Tool};

use super::types::Types;

/// The maximum number of schemas to visit for one query. This bounds the work for cyclic schemas.
const BUDGET: usize = 1_000;

/// A schema within a document, which its references point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'a> {
    document: &'a Json,
    node: &'a Json,
}

impl<'a> Schema<'a> {
    /// Creates the schema of a whole document.
    pub(crate) fn new(document: &'a Json) -> Schema<'a> {
        Schema { document, node: document }
    }

    /// Returns the schema of a function's arguments, if a tool with that name has one.
    pub(crate) fn of_function(tools: &'a [Tool], name: &str) -> Option<Schema<'a>> {
        let function = tools.iter().filter_map(Tool::function).find(|function| {
            let known = function.get("name").and_then(Json::as_str);
            known == Some(name)
        })?;
        function.get("parameters").map(Schema::new)
    }

    /// Returns the JSON of the schema.
    pub(crate) fn node(self) -> &'a Json {
        self.node
    }

    /// Returns the value of a keyword.
    pub(crate) fn keyword(self, name: &str) -> Option<&'a Json> {
        self.node.as_object()?.get(name)
    }

    /// Returns another schema of the same document.
    pub(crate) fn at(self, node: &'a Json) -> Schema<'a> {
        Schema { node, ..self }
    }

    /// Returns the schemas that a keyword lists.
    pub(crate) fn listed(self, name: &str) -> impl Iterator<Item = Schema<'a>> {
        let list = self.keyword(name).and_then(Json::as_array).unwrap_or_default();
        list.iter().map(move |node| self.at(node))
    }

    /// Returns the target of `$ref` if it is in the same document.
    pub(crate) fn referred(self) -> Option<Schema<'a>> {
        let pointer = self.keyword("$ref")?.as_str()?.strip_prefix('#')?;
        let node = pointer.split('/').skip(1).try_fold(self.document, |node, step| match node {
            Json::Object(object) => object.get(&step.replace("~1", "/").replace("~0", "~")),
            Json::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })?;
        Some(self.at(node))
    }

    /// Returns the schema of an object's property.
    pub(crate) fn property(self, key: &str) -> Option<Schema<'a>> {
        self.find_property(key, &mut BUDGET.clone())
    }

    fn find_property(self, key: &str, budget: &mut usize) -> Option<Schema<'a>> {
        *budget = budget.checked_sub(1)?;
        let properties = self.keyword("properties").and_then(Json::as_object);
        if let Some(node) = properties.and_then(|properties| properties.get(key)) {
            return Some(self.at(node));
        }
        let parts =
            self.referred().into_iter().chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|k| self.listed(k)));
        for part in parts {
            if let Some(found) = part.find_property(key, budget) {
                return Some(found);
            }
        }
        self.keyword("additionalProperties").filter(|node| node.as_object().is_some()).map(|node| self.at(node))
    }

    /// Returns the schema of a list's items.
    pub(crate) fn items(self) -> Option<Schema<'a>> {
        self.find_items(&mut BUDGET.clone())
    }

    fn find_items(self, budget: &mut usize) -> Option<Schema<'a>> {
        *budget = budget.checked_sub(1)?;
        if let Some(node) = self.keyword("items").filter(|node| node.as_object().is_some()) {
            return Some(self.at(node));
        }
        let mut parts =
            self.referred().into_iter().chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|k| self.listed(k)));
        parts.find_map(|part| part.find_items(budget))
    }

    /// Returns the types that a value may have.
    pub(crate) fn types(self) -> Types {
        self.find_types(&mut BUDGET.clone())
    }

    fn find_types(self, budget: &mut usize) -> Types {
        let Some(left) = budget.checked_sub(1) else { return Types::ANY };
        *budget = left;
        let mut types = self.keyword("type").map_or(Types::ANY, Types::named);
        if let Some(values) = self.keyword("enum").and_then(Json::as_array) {
            types = types & values.iter().map(Types::of).fold(Types::NONE, Types::bitor);
        }
        if let Some(value) = self.keyword("const") {
            types = types & Types::of(value);
        }
        for part in self.referred().into_iter().chain(self.listed("allOf")) {
            types = types & part.find_types(budget);
        }
        for choice in ["anyOf", "oneOf"] {
            let any = self.listed(choice).map(|part| part.find_types(budget)).reduce(Types::bitor);
            types = types & any.unwrap_or(Types::ANY);
        }
        // Strictly, these keywords do not restrict the type. In practice they imply it.
        if types == Types::ANY && self.keyword("properties").is_some() {
            types = Types::OBJECT;
        }
        if types == Types::ANY && self.keyword("items").is_some() {
            types = Types::ARRAY;
        }
        match self.keyword("nullable") {
            Some(Json::Bool(true)) => types | Types::NULL,
            _ => types,
        }
    }

    /// Reports whether the text itself is one of the values that the schema lists.
    pub(crate) fn lists_text(self, text: &str) -> bool {
        self.find_text(text, &mut BUDGET.clone())
    }

    fn find_text(self, text: &str, budget: &mut usize) -> bool {
        let Some(left) = budget.checked_sub(1) else { return false };
        *budget = left;
        let listed = self.keyword("enum").and_then(Json::as_array).unwrap_or_default();
        let mut values = listed.iter().chain(self.keyword("const"));
        if values.any(|value| value.as_str() == Some(text)) {
            return true;
        }
        let mut parts =
            self.referred().into_iter().chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|k| self.listed(k)));
        parts.any(|part| part.find_text(text, budget))
    }
}
