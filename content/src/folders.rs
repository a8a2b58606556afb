//! Encodes arbitrary names as directory names in the server's own directory, so that no character in them has a meaning
//! for the file system.

use percent_encoding::percent_decode_str;

/// File systems allow names of up to 255 bytes. A longer name becomes nested directories, each named by a piece.
const PIECE_BYTES: usize = 250;
/// Suffix of every piece but the last. An encoded name never ends with it.
const GOES_ON: char = '+';

/// The nested directories for a name, outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folders(Vec<String>);

impl Folders {
    /// Returns the folders in which the object of this name is.
    pub fn of(name: &str) -> Self {
        let encoded = encoded(name);
        let (mut folders, mut rest) = (Vec::new(), encoded.as_str());
        while rest.len() > PIECE_BYTES {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            folders.push(format!("{piece}{GOES_ON}"));
            rest = after;
        }
        folders.push(rest.to_owned());
        Self(folders)
    }

    /// Returns the name for which [`Folders::of`] returns these directories; `None` if there is no such name.
    pub fn name(folders: &[String]) -> Option<String> {
        let text: String = folders.iter().map(|folder| folder.trim_end_matches(GOES_ON)).collect();
        let name = percent_decode_str(&text).decode_utf8().ok()?.into_owned();
        (Self::of(&name).0 == folders).then_some(name)
    }

    /// Returns whether the name continues in a directory inside this one.
    pub fn goes_on(folder: &str) -> bool {
        folder.ends_with(GOES_ON)
    }

    /// Returns the names of the folders, outermost first.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

fn encoded(name: &str) -> String {
    let mut encoded = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii() && !c.is_control() {
            encoded.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| encoded += &format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_and_a_folder_is_a_name() {
        for (name, folder) in [
            ("prod", "prod"),
            ("team/app-1_b", "team%2Fapp-1_b"),
            ("..", "%2E%2E"),
            ("a+", "a%2B"),
            ("a%2Fb", "a%252Fb"),
            ("größe", "größe"),
            ("a\u{85}b\n", "a%C2%85b%0A"),
        ] {
            assert_eq!(Folders::of(name).names(), [folder]);
            assert_eq!(Folders::name(&[folder.into()]).as_deref(), Some(name));
        }
        for folders in [&["a/b"][..], &["a%2fb"], &["%FF"], &["a", "b"]] {
            let folders: Vec<_> = folders.iter().map(|folder| folder.to_string()).collect();
            assert_eq!(Folders::name(&folders), None, "{folders:?}");
        }
    }

    #[test]
    fn a_long_name_is_folders_in_folders() {
        for name in ["/".repeat(512), "ß".repeat(256), "a".repeat(251)] {
            let folders = Folders::of(&name);
            let names = folders.names();
            assert!(names.len() > 1 && names.iter().all(|folder| folder.len() <= 255));
            assert_eq!(Folders::name(names), Some(name));
        }
    }
}
