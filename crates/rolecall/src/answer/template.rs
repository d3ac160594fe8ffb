//! The analysis of a template as JSON.

use rolecall_conversation::{Json, json, object};
use rolecall_render::jinja::{Constant, Spot, Use};
use rolecall_render::{BosUse, Support, TemplateAnalysis};

use crate::template::NamedTemplate;

/// Returns
/// `{"name", "file", "lines", "supports", "arguments", "ids", "writes_bos", "switches", "reads", "findings", "refusals"}`.
pub fn of_analysis(named: &NamedTemplate, analysis: &TemplateAnalysis) -> Json {
    let mut supports = object! {};
    for (capability, support) in &analysis.support {
        supports.insert(capability.name(), of_support(support));
    }
    let switches = analysis.switches.iter().map(|switch| {
        let mut answer = object! {
            "name" => switch.name.as_str(), "at" => of_spot(&switch.spot),
            "values" => switch.values.iter().map(of_constant).collect::<Vec<Json>>(),
        };
        if let Some(default) = switch.default {
            answer.insert("default", Json::Bool(default));
        }
        Json::Object(answer)
    });
    let reads = analysis.program.reads.iter().map(|read| {
        let uses = read
            .uses
            .iter()
            .map(|(how, spot)| Json::Object(object! { "how" => name_of_use(*how), "at" => of_spot(spot) }));
        Json::Object(object! { "path" => read.path.to_string(), "uses" => uses.collect::<Vec<Json>>() })
    });
    let findings = analysis.findings.iter().map(|finding| {
        let mut answer = object! { "code" => finding.kind.code(), "message" => finding.message.as_str() };
        if let Some(spot) = &finding.spot {
            answer.insert("at", of_spot(spot));
        }
        answer.insert("help", Json::from(finding.kind.help()));
        Json::Object(answer)
    });
    let refusals = analysis.program.calls.iter().filter(|call| call.name == "raise_exception").map(|call| {
        let words = call.argument.iter().map(of_constant).collect::<Vec<Json>>();
        Json::Object(object! { "at" => of_spot(&call.spot), "words" => words })
    });
    let name_or_null = |name: Option<&str>| name.map_or(Json::Null, Json::from);
    Json::Object(object! {
        "name" => named.name.as_str(),
        "file" => named.place(),
        "lines" => named.source.replace("\r\n", "\n").replace('\r', "\n").lines().count() as i64,
        "supports" => Json::Object(supports),
        "arguments" => name_or_null(analysis.calls.arguments.map(|form| form.name())),
        "ids" => name_or_null(analysis.calls.ids.map(|form| form.name())),
        "writes_bos" => of_bos(analysis.bos),
        "switches" => switches.collect::<Vec<Json>>(),
        "reads" => reads.collect::<Vec<Json>>(),
        "refusals" => refusals.collect::<Vec<Json>>(),
        "findings" => findings.collect::<Vec<Json>>(),
    })
}

/// Returns `true`, `false`, `{"refused": ".."}`, `{"fails": ".."}` or `null`.
fn of_support(support: &Support) -> Json {
    match support {
        Support::Yes => Json::Bool(true),
        Support::No => Json::Bool(false),
        Support::Refused(words) => Json::Object(object! { "refused" => words.as_str() }),
        Support::Fails(words) => Json::Object(object! { "fails" => words.as_str() }),
        _ => Json::Null,
    }
}

/// Returns `true` or `false`, or `null` if no BOS token or no plain prompt is known.
fn of_bos(bos: BosUse) -> Json {
    match bos {
        BosUse::Written => Json::Bool(true),
        BosUse::NotWritten => Json::Bool(false),
        _ => Json::Null,
    }
}

fn of_constant(constant: &Constant) -> Json {
    match constant {
        Constant::None => Json::Null,
        Constant::Bool(value) => Json::Bool(*value),
        Constant::Number(number) => json::parse(number).unwrap_or_else(|_| Json::from(number.as_str())),
        Constant::Text(text) => Json::from(text.as_str()),
    }
}

/// Returns `"line:column"`.
fn of_spot(spot: &Spot) -> Json {
    Json::from(format!("{}:{}", spot.line, spot.column))
}

/// Returns the word for a use of a value.
pub fn name_of_use(how: Use) -> &'static str {
    match how {
        Use::Printed => "printed",
        Use::Compared => "compared",
        Use::Iterated => "iterated",
        Use::Changed => "changed",
    }
}
