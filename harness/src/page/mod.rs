//! Pages for a browser: one file each, without network, scripts or other files, in light and dark. What comes from elsewhere is escaped by
//! the template; what is shown by colour is said by a word or a pattern too.

pub(crate) mod chart;

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// A whole page.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    };
    page.into_string()
}

/// Pages are read in tests as a browser would: well formed, and nothing in them but what was meant.
#[cfg(test)]
pub(crate) mod tests {
    use quick_xml::events::Event;

    /// What a page holds.
    pub(crate) struct Parsed {
        pub(crate) texts: Vec<String>,
        pub(crate) names: Vec<String>,
        pub(crate) attributes: Vec<String>,
    }

    impl Parsed {
        /// Whether some text holds this.
        pub(crate) fn has(&self, wanted: &str) -> bool {
            self.texts.iter().any(|text| text.contains(wanted))
        }

        /// How many elements have this name.
        pub(crate) fn count(&self, wanted: &str) -> usize {
            self.names.iter().filter(|name| *name == wanted).count()
        }
    }

    /// Reads a page; panics if it is not well formed but for the void elements, or would run or fetch anything.
    pub(crate) fn parse(page: &str) -> Parsed {
        let mut reader = quick_xml::Reader::from_str(page);
        reader.config_mut().check_end_names = false;
        let (mut texts, mut names, mut attributes, mut depth) =
            (Vec::new(), Vec::new(), Vec::new(), 0_i32);
        let mut text = String::new();
        loop {
            match reader.read_event().expect("well formed") {
                Event::Start(start) => {
                    let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                    depth += i32::from(name != "meta");
                    names.push(name);
                    for attribute in start.attributes() {
                        let attribute = attribute.expect("well formed");
                        attributes.push(String::from_utf8_lossy(&attribute.value).into_owned());
                    }
                    texts.push(std::mem::take(&mut text));
                }
                Event::End(_) => {
                    depth -= 1;
                    texts.push(std::mem::take(&mut text));
                }
                Event::Text(piece) => text.push_str(&piece.decode().expect("UTF-8")),
                Event::GeneralRef(reference) => match reference.decode().expect("UTF-8").as_ref() {
                    "lt" => text.push('<'),
                    "gt" => text.push('>'),
                    "amp" => text.push('&'),
                    "quot" => text.push('"'),
                    other => panic!("&{other};"),
                },
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "every element ends");
        for active in ["script", "link", "img", "iframe", "object"] {
            assert!(!names.iter().any(|name| name == active), "a {active}");
        }
        assert!(
            !attributes.iter().any(|value| value.contains("://")),
            "nothing is fetched"
        );
        assert!(!page.contains("NaN") && !page.contains("inf\""));
        Parsed {
            texts,
            names,
            attributes,
        }
    }
}
