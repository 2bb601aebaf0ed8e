//! `sasl.jaas.config` of Kafka's Java client: a login module and its options.

/// A login module, by the last part of its class's name, with its options.
#[derive(Debug, PartialEq, Eq)]
pub struct LoginModule {
    pub name: String,
    options: Vec<(String, String)>,
}

impl LoginModule {
    /// Reads `package.Module flag name="value" … ;`, as `JaasConfig` of Kafka does.
    ///
    /// # Errors
    /// What is wrong, without a value.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let text = text.strip_suffix(';').ok_or("it ends with a semicolon")?;
        let mut words = text.split_whitespace();
        let (Some(class), Some(flag)) = (words.next(), words.next()) else {
            return Err("it is the class of a login module, `required`, and options");
        };
        if !["required", "requisite", "sufficient", "optional"].contains(&flag.to_ascii_lowercase().as_str()) {
            return Err("behind the class of the login module stands `required`");
        }
        let name = class.rsplit('.').next().unwrap_or(class).to_owned();
        let mut rest = text.trim_start()[class.len()..].trim_start()[flag.len()..].trim_start();
        let mut options = Vec::new();
        while !rest.is_empty() {
            let (option, after) = rest.split_once('=').ok_or("an option is written as name=\"value\"")?;
            let (value, after) = value(after.trim_start())?;
            options.push((option.trim().to_owned(), value));
            rest = after.trim_start();
        }
        Ok(LoginModule { name, options })
    }

    /// Takes the option out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let place = self.options.iter().position(|(option, _)| option == name)?;
        Some(self.options.remove(place).1)
    }

    /// The options that were not taken.
    pub fn rest(&self) -> Vec<&str> {
        self.options.iter().map(|(option, _)| option.as_str()).collect()
    }
}

/// A value, with what stands behind it. In quotes, a backslash stands before a character that counts as itself.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = text[1..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, next)| next)),
            end if end == quote => return Ok((value, &text[1 + at + 1..])),
            other => value.push(other),
        }
    }
    Err("a quote does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read_with_their_options() {
        let text = "org.apache.kafka.common.security.plain.PlainLoginModule   required username='a b'   \
                    password=\"Endpoint=sb://x/;Key=\\\"y\\\";\" plain=word;";
        let mut module = LoginModule::parse(text).unwrap();
        assert_eq!(module.name, "PlainLoginModule");
        assert_eq!(module.take("username").as_deref(), Some("a b"));
        assert_eq!(module.take("password").as_deref(), Some("Endpoint=sb://x/;Key=\"y\";"));
        assert_eq!(module.take("other"), None);
        assert_eq!(module.rest(), ["plain"]);
        assert_eq!(LoginModule::parse("x.IAMLoginModule required ;").unwrap().rest(), [""; 0]);
        for wrong in ["", "x.Y required", "x.Y;", "x.Y maybe a=b;", "x.Y required a;", "x.Y required a=\"b;"] {
            assert!(LoginModule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
