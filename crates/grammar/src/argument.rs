//! Arguments written one by one, each with its key and its value.

use rolecall_format::codec::kinds::{Kind, Words};
use rolecall_format::codec::{AsJson, JsonStyle, Spelling, attribute, literal};
use rolecall_format::{Codec, Field, Op, Slot};

use crate::composer::Composer;
use crate::definitions::WriteShapes;
use crate::grammar::Rules;
use crate::node::FreeText;
use crate::schema::{Form, Property, Schema, Shape};
use crate::value::{self, Syntax, ValueWriter, listed};
use crate::{Class, Node, Note, Pattern, elements};

/// Builds a grammar for Python keyword arguments.
pub(crate) fn keywords(schema: &Schema, rules: &mut Rules) -> Node {
    let mut parts = Vec::new();
    let (properties, others) = arguments(schema);
    for property in &properties {
        let value = ValueWriter::new(schema, Syntax::Python, rules).shape(&property.shape);
        parts.push((Node::sequence([Node::literal(format!("{}=", property.name)), value]), property.required));
    }
    let others = others.map(|shape| {
        let value = ValueWriter::new(schema, Syntax::Python, rules).shape(&shape);
        Node::sequence([Node::Pattern(any_name()), Node::literal("="), value])
    });
    listed(parts, &Node::literal(", "), others, rules)
}

/// Builds a grammar for arguments in the layouts `argument` and `argument-string`.
pub(crate) fn one_by_one(composer: &Composer<'_>, schema: &Schema, rules: &mut Rules) -> Node {
    let (properties, others) = arguments(schema);
    let mut parts = Vec::new();
    for property in &properties {
        let key = Node::literal(&property.name);
        let node = argument(composer, schema, &key, Some(&property.name), &property.shape, rules);
        parts.push((node, property.required));
    }
    let others = others.map(|shape| argument(composer, schema, &Node::Pattern(any_name()), None, &shape, rules));
    let separator = composer.format.layout(Slot::ArgumentSeparator);
    let separator = separator.map_or(Node::empty(), |layout| composer.ops(layout.ops(), &mut |_, _| None));
    match separator.is_empty() {
        // Without a separator, each argument is independently present or absent.
        true => {
            let each = parts.into_iter().map(|(node, needed)| if needed { node } else { node.optional() });
            Node::sequence(each.chain(others.map(|node| node.repeated(0, None))))
        }
        false => listed(parts, &separator, others, rules),
    }
}

/// Returns the arguments that a schema lists, and the shape of additional ones. A schema that lists
/// none allows any.
fn arguments(schema: &Schema) -> (Vec<Property>, Option<Shape>) {
    match schema.arguments() {
        Some(object) => (object.properties.clone(), object.others.as_deref().cloned()),
        None => (Vec::new(), Some(Shape::Any)),
    }
}

fn any_name() -> Pattern {
    let first = Class::of(&[('A', 'Z'), ('_', '_'), ('a', 'z')]);
    let more = Class::of(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]);
    Pattern::Sequence(vec![Pattern::Class(first), Pattern::Class(more).repeated(0, None)])
}

/// Builds a grammar for one argument. Strings use their own layout if there is one.
fn argument(
    composer: &Composer<'_>,
    schema: &Schema,
    key: &Node,
    name: Option<&str>,
    shape: &Shape,
    rules: &mut Rules,
) -> Node {
    let mut strings = Vec::new();
    let mut others = Vec::new();
    sort(schema, shape, &mut strings, &mut others, 0);
    let plain = composer.format.layout(Slot::Argument);
    let own = composer.format.layout(Slot::ArgumentString).or(plain);
    let mut ways = Vec::new();
    for (layout, shapes) in [(own, strings), (plain.or(own), others)] {
        let Some(layout) = layout.filter(|_| !shapes.is_empty()) else { continue };
        for (word, shapes) in by_word(layout.ops(), &shapes) {
            ways.push(fill(composer, layout.ops(), (key, name, &word), schema, &shapes, rules));
        }
    }
    Node::choice(ways)
}

fn fill(
    composer: &Composer<'_>,
    ops: &[Op],
    (key, name, word): (&Node, Option<&str>, &str),
    schema: &Schema,
    shapes: &[Shape],
    rules: &mut Rules,
) -> Node {
    composer.ops(ops, &mut |field, codec| match (field, codec) {
        (Field::Key, Codec::Json(style)) => Some(match name {
            Some(name) => Node::literal(style.print(&name.into())),
            None => Syntax::Json(*style).string(&Form::default()),
        }),
        (Field::Key, Codec::Attribute) => Some(match name {
            Some(name) => Node::literal(attribute::escape(name)),
            None => key.clone(),
        }),
        (Field::Key, _) => Some(key.clone()),
        (Field::Type, _) => Some(Node::literal(word)),
        (Field::Value, codec) => {
            let each: Vec<Node> =
                shapes.iter().map(|shape| value_by(composer, codec, (schema, name), shape, rules)).collect();
            Some(Node::choice(each))
        }
        _ => None,
    })
}

/// Separates strings from other shapes, including inside definitions and unions.
fn sort(schema: &Schema, shape: &Shape, strings: &mut Vec<Shape>, others: &mut Vec<Shape>, depth: usize) {
    match shape {
        Shape::Ref(_) if depth < 20 => sort(schema, schema.resolve(shape), strings, others, depth + 1),
        Shape::Union(shapes) if depth < 20 => {
            shapes.iter().for_each(|shape| sort(schema, shape, strings, others, depth + 1));
        }
        Shape::String(_) => strings.push(shape.clone()),
        Shape::Const(value) if value.as_str().is_some() => strings.push(shape.clone()),
        Shape::Any | Shape::Ref(_) | Shape::Union(_) => {
            strings.push(Shape::String(Form::default()));
            others.push(Shape::Any);
        }
        _ => others.push(shape.clone()),
    }
}

/// Groups shapes by the word that a layout writes for their kind. If the layout writes none, there
/// is one group.
fn by_word(ops: &[Op], shapes: &[Shape]) -> Vec<(String, Vec<Shape>)> {
    let Some(words) = words_of(ops) else { return vec![(String::new(), shapes.to_vec())] };
    let mut groups: Vec<(String, Vec<Shape>)> = Vec::new();
    for (kind, shape) in shapes.iter().flat_map(|shape| by_kind(shape, &words)) {
        let word = words.of(kind);
        match groups.iter_mut().find(|(known, _)| known == word) {
            Some((_, group)) if group.contains(&shape) => {}
            Some((_, group)) => group.push(shape),
            None => groups.push((word.to_owned(), vec![shape])),
        }
    }
    groups
}

/// Returns the words for the kinds of values that a layout writes.
fn words_of(ops: &[Op]) -> Option<Words> {
    ops.iter().find_map(|op| match op {
        Op::Hole { field: Field::Type, codec: Codec::Kinds(words), .. } => Some(words.clone()),
        Op::Hole { field: Field::Type, .. } => Some(Words::default()),
        Op::Group(inner) => words_of(inner),
        _ => None,
    })
}

/// Splits a shape into shapes of a single kind each.
fn by_kind(shape: &Shape, words: &Words) -> Vec<(Kind, Shape)> {
    let number = |shape: Shape| match words.of(Kind::Integer) == words.of(Kind::Fraction) {
        true => vec![(Kind::Fraction, shape)],
        false => vec![(Kind::Integer, Shape::Integer { min: None, max: None }), (Kind::Fraction, shape)],
    };
    let kind = match shape {
        Shape::Number => return number(Shape::Number),
        Shape::Any | Shape::Ref(_) | Shape::Union(_) => {
            let object = crate::schema::ObjectShape { properties: Vec::new(), others: Some(Box::new(Shape::Any)) };
            let list = Shape::Array { items: Box::new(Shape::Any), min: 0, max: None };
            let others = [(Kind::Boolean, Shape::Bool), (Kind::Null, Shape::Null), (Kind::Array, list)];
            let all = number(Shape::Number).into_iter().chain(others);
            return all.chain([(Kind::Object, Shape::Object(object))]).collect();
        }
        Shape::Null => Kind::Null,
        Shape::Bool => Kind::Boolean,
        Shape::Integer { .. } => Kind::Integer,
        Shape::String(_) => Kind::String,
        Shape::Const(value) => Kind::of(value),
        Shape::Array { .. } => Kind::Array,
        Shape::Object(_) => Kind::Object,
    };
    vec![(kind, shape.clone())]
}

/// Builds a grammar for a value in the syntax of a codec.
fn value_by(
    composer: &Composer<'_>,
    codec: &Codec,
    (schema, name): (&Schema, Option<&str>),
    shape: &Shape,
    rules: &mut Rules,
) -> Node {
    let mut by = |syntax: Syntax| ValueWriter::new(schema, syntax, rules).shape(shape);
    let spelling = codec.value_syntax().map_or(Spelling::Text(AsJson::Nothing), |syntax| syntax.spelling());
    match (spelling, shape) {
        (Spelling::Json(style), _) => json_value(schema, shape, style),
        (Spelling::Python, _) => by(Syntax::Python),
        (Spelling::Marked(marker), _) => by(composer.marked(marker)),
        (Spelling::Elements(elements), shape) => elements::value(elements, schema, shape, rules),
        (Spelling::Cdata, Shape::String(form)) => in_section(form),
        (_, Shape::String(form)) => raw(form, schema, name, rules),
        (_, Shape::Const(value)) => Node::literal(match codec.value_syntax() {
            // A CDATA section is not needed for a constant that a model can only repeat.
            Some(syntax) if spelling != Spelling::Cdata => syntax.printed(value),
            _ => literal::print(value).into_owned(),
        }),
        (Spelling::Text(AsJson::Containers), Shape::Array { .. } | Shape::Object(_))
        | (Spelling::Text(AsJson::Objects), Shape::Object(_)) => json_value(schema, shape, JsonStyle::PLAIN),
        (Spelling::Text(AsJson::Containers), Shape::Any) => {
            // A value other than a list or an object is written as in Python.
            let words = ["None", "True", "False"].map(Node::literal);
            let whole = Shape::Array { items: Box::new(Shape::Any), min: 0, max: None };
            let object = crate::schema::ObjectShape { properties: Vec::new(), others: Some(Box::new(Shape::Any)) };
            let mut json = |shape: &Shape| ValueWriter::new(schema, Syntax::Json(JsonStyle::PLAIN), rules).shape(shape);
            let (list, object) = (json(&whole), json(&Shape::Object(object)));
            Node::choice(words.into_iter().chain([Node::Pattern(value::number()), list, object]))
        }
        (Spelling::Text(_) | Spelling::Cdata | Spelling::JsonString, _) => by(Syntax::Python),
    }
}

fn json_value(schema: &Schema, shape: &Shape, style: JsonStyle) -> Node {
    Node::Json(std::sync::Arc::new(schema.part(shape, style)))
}

/// Returns an unquoted string. Text that might contain the marker after it cannot also be
/// restricted in length or to a pattern.
pub(crate) fn raw(form: &Form, schema: &Schema, name: Option<&str>, rules: &mut Rules) -> Node {
    if let Some(pattern) = form.pattern.as_ref().filter(|pattern| pattern.is_plain()) {
        return Node::Pattern(pattern.clone());
    }
    let unsaid = [
        (form.pattern.is_some(), "pattern"),
        (form.min > 0 && form.pattern.is_none(), "minLength"),
        (form.max.is_some() && form.pattern.is_none(), "maxLength"),
    ];
    for (_, keyword) in unsaid.into_iter().filter(|(unsaid, _)| *unsaid) {
        let at = name.map_or(String::new(), |name| format!("/properties/{name}"));
        let note = Note::Keyword { purpose: schema.purpose.clone(), at, keyword: keyword.to_owned() };
        rules.note(&note);
    }
    Node::Text(FreeText::default())
}

/// Returns unquoted text if XML allows it, or else text in a CDATA section.
fn in_section(form: &Form) -> Node {
    let bare = Class { negated: true, ranges: Class::chars("<&\n").ranges };
    let bare = match &form.pattern {
        Some(pattern) => pattern.map_classes(&|class| Pattern::Class(class.without(&Class::chars("<&\n").ranges))),
        None => Pattern::Class(bare).repeated(form.min, form.max),
    };
    let inside = Node::Text(FreeText { avoid: vec!["]]>".into()], ..FreeText::default() });
    let section = Node::sequence([Node::literal("<![CDATA["), inside, Node::literal("]]>")]);
    Node::choice([section, Node::Pattern(bare)])
}
