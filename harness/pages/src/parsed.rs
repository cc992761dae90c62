//! Pages are read in tests as a browser would: well formed, and nothing in them but what was meant.

use quick_xml::events::Event;

/// What a page holds.
pub struct Parsed {
    /// Its texts.
    pub texts: Vec<String>,
    /// The names of its elements.
    pub names: Vec<String>,
    /// The values of all attributes.
    pub attributes: Vec<String>,
}

impl Parsed {
    /// Whether some text holds this.
    pub fn has(&self, wanted: &str) -> bool {
        self.texts.iter().any(|text| text.contains(wanted))
    }

    /// How many elements have this name.
    pub fn count(&self, wanted: &str) -> usize {
        self.names.iter().filter(|name| *name == wanted).count()
    }
}

/// Reads a page; panics if it is not well formed but for the void elements, or would run or fetch anything.
pub fn parse(page: &str) -> Parsed {
    let mut reader = quick_xml::Reader::from_str(page);
    reader.config_mut().check_end_names = false;
    let (mut texts, mut names, mut attributes, mut depth) =
        (Vec::new(), Vec::new(), Vec::new(), 0_i32);
    let mut text = String::new();
    loop {
        match reader.read_event().expect("well formed") {
            Event::Start(start) => {
                let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                depth += i32::from(!["meta", "br"].contains(&name.as_str()));
                for attribute in start.attributes() {
                    let attribute = attribute.expect("well formed");
                    let value = String::from_utf8_lossy(&attribute.value).into_owned();
                    // A link fetches nothing until somebody follows it.
                    let is_link = name == "a" && attribute.key.as_ref() == b"href";
                    assert!(is_link || !value.contains("://"), "nothing is fetched");
                    attributes.push(value);
                }
                names.push(name);
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
    assert!(!page.contains("NaN") && !page.contains("inf\""));
    Parsed {
        texts,
        names,
        attributes,
    }
}
