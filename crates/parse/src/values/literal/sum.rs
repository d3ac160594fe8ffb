//! Arithmetic with constant numbers, as Python computes it. There are no names and no calls.

use rolecall_format::codec::python;

/// Evaluates an expression and returns the result as JSON. Returns `None` if it is no arithmetic, if
/// its result is no number, or if it is too large.
pub(super) fn evaluate(text: &str) -> Option<String> {
    let mut rest = Rest { text, depth: 0 };
    let value = rest.sum()?;
    rest.text.trim().is_empty().then_some(())?;
    match value {
        Number::Whole(number) => Some(number.to_string()),
        Number::Real(number) => number.is_finite().then(|| format!("{number:?}")),
    }
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Number::Whole(number) => number as f64,
            Number::Real(number) => number,
        }
    }

    fn with(self, other: Number, operator: &str) -> Option<Number> {
        if let (Number::Whole(one), Number::Whole(other)) = (self, other)
            && operator != "/"
        {
            let floor = || {
                let (quotient, rest) = (one.checked_div(other)?, one.checked_rem(other)?);
                let is_below = rest != 0 && (rest < 0) != (other < 0);
                Some((quotient - i128::from(is_below), if is_below { rest + other } else { rest }))
            };
            return Some(Number::Whole(match operator {
                "+" => one.checked_add(other)?,
                "-" => one.checked_sub(other)?,
                "*" => one.checked_mul(other)?,
                "//" => floor()?.0,
                "%" => floor()?.1,
                _ if other < 0 => return Some(Number::Real((one as f64).powf(other as f64))),
                _ => one.checked_pow(u32::try_from(other).ok()?)?,
            }));
        }
        let (one, other) = (self.real(), other.real());
        if other == 0.0 && matches!(operator, "/" | "//" | "%") {
            return None;
        }
        Some(Number::Real(match operator {
            "+" => one + other,
            "-" => one - other,
            "*" => one * other,
            "/" => one / other,
            "//" => floor_div(one, other).0,
            "%" => floor_div(one, other).1,
            _ => one.powf(other),
        }))
    }
}

/// Returns the quotient and the rest of a division, which has the sign of the divisor.
///
/// CPython's `_float_div_mod`: the rest is exact, and the quotient is rounded to a whole number.
fn floor_div(one: f64, other: f64) -> (f64, f64) {
    let mut rest = one % other;
    let mut quotient = (one - rest) / other;
    if rest != 0.0 && (rest < 0.0) != (other < 0.0) {
        rest += other;
        quotient -= 1.0;
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

/// The rest of an expression.
struct Rest<'t> {
    text: &'t str,
    /// The number of open parentheses and signs.
    depth: usize,
}

/// The maximum depth of an expression.
const DEEPEST: usize = 64;

impl Rest<'_> {
    fn take(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        self.text = self.text.trim_start();
        let found = operators.iter().find(|operator| self.text.starts_with(**operator))?;
        self.text = &self.text[found.len()..];
        Some(found)
    }

    fn sum(&mut self) -> Option<Number> {
        let mut value = self.product()?;
        while let Some(operator) = self.take(&["+", "-"]) {
            value = value.with(self.product()?, operator)?;
        }
        Some(value)
    }

    fn product(&mut self) -> Option<Number> {
        let mut value = self.signed()?;
        while !self.text.trim_start().starts_with("**")
            && let Some(operator) = self.take(&["*", "//", "/", "%"])
        {
            value = value.with(self.signed()?, operator)?;
        }
        Some(value)
    }

    fn signed(&mut self) -> Option<Number> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let value = match self.take(&["+", "-"]) {
            Some("-") => match self.signed()? {
                Number::Whole(number) => number.checked_neg().map(Number::Whole),
                Number::Real(number) => Some(Number::Real(-number)),
            },
            Some(_) => self.signed(),
            None => self.power(),
        };
        self.depth -= 1;
        value
    }

    fn power(&mut self) -> Option<Number> {
        let value = self.number()?;
        match self.take(&["**"]) {
            Some(operator) => value.with(self.signed()?, operator),
            None => Some(value),
        }
    }

    fn number(&mut self) -> Option<Number> {
        if self.take(&["("]).is_some() {
            self.depth += 1;
            let value = if self.depth > DEEPEST { None } else { self.sum() };
            self.depth -= 1;
            return value.filter(|_| self.take(&[")"]).is_some());
        }
        self.text = self.text.trim_start();
        let bytes = self.text.as_bytes();
        let is_exponent = |at: usize| {
            matches!(bytes[at], b'+' | b'-')
                && matches!(bytes[at - 1], b'e' | b'E')
                && !self.text.starts_with("0x")
                && !self.text.starts_with("0X")
        };
        let is_of_number = |at: usize| bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'.' | b'_');
        let end = (0..bytes.len()).find(|at| !is_of_number(*at) && (*at == 0 || !is_exponent(*at)));
        let (token, rest) = self.text.split_at(end.unwrap_or(bytes.len()));
        let number = python::number(token)?;
        self.text = rest;
        match number.spelling().parse() {
            Ok(number) => Some(Number::Whole(number)),
            Err(_) => number.spelling().parse().ok().map(Number::Real),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn arithmetic_is_that_of_python() {
        for (text, value) in [
            ("1+2", "3"),
            ("2 * (3 + 4) - 1", "13"),
            ("7/2", "3.5"),
            ("6/3", "2.0"),
            ("-7//2", "-4"),
            ("-7 % 3", "2"),
            ("7 % -3", "-2"),
            ("-2**2", "-4"),
            ("2**3**2", "512"),
            ("2**-1", "0.5"),
            ("1e3 + 1", "1001.0"),
            ("60*60*24", "86400"),
            ("0x10 + 1_000", "1016"),
            ("5.3 % 0.1", "0.09999999999999953"),
            ("-5.3 % 0.1", "4.718447854656915e-16"),
            ("5.3 // 0.1", "52.0"),
            ("7.5 // -2", "-4.0"),
            ("1 * -0.0", "-0.0"),
        ] {
            assert_eq!(evaluate(text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let deep = "(".repeat(100_000);
        let signs = "-".repeat(100_000);
        for text in ["", "1+", "1 2", "a+1", "f(1)", "1/0", "5%0", "9**99999", "(1", "1)", "__import__", &deep, &signs]
        {
            assert_eq!(evaluate(text), None, "{text:.40}");
        }
    }
}
