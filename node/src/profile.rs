//! Profiles: where a cluster is and who we are there, under a short name.
//!
//! A profile is a small TOML file, `$XDG_CONFIG_HOME/gaggle/NAME.toml`, which only its user can
//! read. `gaggle dev` writes one; people write others by hand:
//!
//! ```toml
//! addresses = ["n1.example.com:7400", "n2.example.com:7400"]
//! ca = "/etc/gaggle/ca.pem"
//! certificate = "/etc/gaggle/client-app.pem"
//! key = "/etc/gaggle/client-app.key"
//! ```
//!
//! Paths are relative to the profile. Invariant: a profile that a person wrote is never
//! overwritten; `gaggle dev` replaces only what carries its own mark. What this file does not
//! do: it opens no connection.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use gaggle_client::tls::{CredentialPaths, Credentials, TlsError};
use gaggle_client::{ConnectError, ConnectOptions};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The name that `gaggle dev` writes, and the others use when nothing else is said: so the
/// cluster that is found without a word is always one that holds nothing dear.
pub const DEFAULT_NAME: &str = "dev";

/// Why there is no profile. Nothing was changed.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The name is neither a plain name nor a path.
    #[error("{0:?} is not the name of a profile: letters, digits, '.', '_', '-', or a path")]
    BadName(String),
    /// There is neither `$XDG_CONFIG_HOME` nor `$HOME`.
    #[error("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for profiles")]
    NoHome,
    /// There is no such file.
    #[error("there is no profile {}", .0.display())]
    NotFound(PathBuf),
    /// It cannot be read.
    #[error("cannot read the profile {}: {error}", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is not a profile.
    #[error("{} is not a profile: {why}", .path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A person wrote the file that would be overwritten.
    #[error("{} was not made by `gaggle dev` and is not overwritten", .0.display())]
    Foreign(PathBuf),
    /// It cannot be written.
    #[error("cannot write the profile {}: {error}", .path.display())]
    Unwritable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Where a cluster is and who we are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Some of its nodes, `host:port`.
    pub addresses: Vec<String>,
    /// The node CA.
    pub ca: PathBuf,
    /// Our certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The directory of the throw-away cluster that `gaggle dev` wrote this for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<PathBuf>,
}

impl Profile {
    /// Reads the profile of this name, or at this path if it has a slash.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        Self::read(&path_of(name)?)
    }

    /// Reads a profile; relative paths in it are those from its own directory.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        let text = fs::read_to_string(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ProfileError::NotFound(path.to_owned()),
            _ => ProfileError::Unreadable { path: path.to_owned(), error },
        })?;
        let malformed = |why: String| ProfileError::Malformed { path: path.to_owned(), why };
        let mut profile: Self =
            toml::from_str(&text).map_err(|error| malformed(error.message().to_owned()))?;
        if profile.addresses.is_empty() {
            return Err(malformed("`addresses` is empty".to_owned()));
        }
        let dir = path.parent().unwrap_or_else(|| Path::new(""));
        for file in [&mut profile.ca, &mut profile.certificate, &mut profile.key] {
            *file = dir.join(&*file);
        }
        Ok(profile)
    }

    /// Writes the profile of a throw-away cluster, readable by its user only, and says where.
    ///
    /// # Errors
    /// [`ProfileError::Foreign`] when a person wrote the present one, and others.
    pub fn save(&self, name: &str) -> Result<PathBuf, ProfileError> {
        let path = path_of(name)?;
        match Self::read(&path) {
            Ok(Self { dev: Some(_), .. }) | Err(ProfileError::NotFound(_)) => {}
            Ok(_) | Err(_) => return Err(ProfileError::Foreign(path)),
        }
        self.write(&path)
            .map_err(|error| ProfileError::Unwritable { path: path.clone(), error })?;
        Ok(path)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let dir =
            path.parent().filter(|dir| *dir != Path::new("")).unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(dir)?;
        let text = toml::to_string(self).map_err(io::Error::other)?;
        // A temporary file has mode 0600 from its first moment, and nobody reads half of it.
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|refused| refused.error)?;
        Ok(())
    }

    /// How to connect to the cluster.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub fn connect_options(&self) -> Result<ConnectOptions, ConnectError> {
        Ok(ConnectOptions::new(self.addresses.clone(), self.credentials()?))
    }

    /// Who we are there.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub fn credentials(&self) -> Result<Credentials, TlsError> {
        Credentials::load(&CredentialPaths {
            ca: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        })
    }
}

/// Where the profile of this name is: a text with a slash is a path already.
///
/// # Errors
/// [`ProfileError::BadName`] and [`ProfileError::NoHome`].
pub fn path_of(name: &str) -> Result<PathBuf, ProfileError> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(ProfileError::BadName(name.to_owned()));
    }
    Ok(home("XDG_CONFIG_HOME", ".config")?.join("gaggle").join(format!("{name}.toml")))
}

/// Where `gaggle dev` keeps the throw-away cluster of this name.
///
/// # Errors
/// [`ProfileError::NoHome`].
pub fn data_dir(name: &str) -> Result<PathBuf, ProfileError> {
    Ok(home("XDG_DATA_HOME", ".local/share")?.join("gaggle").join(name))
}

/// A directory of the XDG rules: from its variable, which counts only if it is absolute, or
/// under the home directory.
fn home(variable: &str, below_home: &str) -> Result<PathBuf, ProfileError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
        .ok_or(ProfileError::NoHome)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn profile() -> Profile {
        Profile {
            addresses: vec!["127.0.0.1:7400".to_owned()],
            ca: "/x/ca.pem".into(),
            certificate: "/x/c.pem".into(),
            key: "/x/c.key".into(),
            dev: Some("/x".into()),
        }
    }

    #[test]
    fn a_profile_comes_back_as_it_was_saved_and_only_its_user_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/p.toml");
        let name = path.to_str().unwrap();
        assert_eq!(profile().save(name).unwrap(), path);
        assert_eq!(Profile::load(name).unwrap(), profile());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        profile().save(name).unwrap();
    }

    #[test]
    fn what_a_person_wrote_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        let name = path.to_str().unwrap();
        let text = "addresses = [\"n1\"]\nca = \"ca.pem\"\ncertificate = \"c\"\nkey = \"k\"\n";
        fs::write(&path, text).unwrap();
        assert!(matches!(profile().save(name), Err(ProfileError::Foreign(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(Profile::load(name).unwrap().ca, dir.path().join("ca.pem"));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        assert!(matches!(Profile::read(&path), Err(ProfileError::NotFound(_))));
        for bad in ["", "addresses = []\nca = \"\"\ncertificate = \"\"\nkey = \"\"", "colour = 1"] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(Profile::read(&path), Err(ProfileError::Malformed { .. })), "{bad}");
        }
    }

    #[test]
    fn a_name_is_plain_and_a_path_has_a_slash() {
        assert!(matches!(path_of("a b"), Err(ProfileError::BadName(_))));
        assert!(matches!(path_of(""), Err(ProfileError::BadName(_))));
        assert!(matches!(path_of(".."), Err(ProfileError::BadName(_))));
        assert_eq!(path_of("./x.toml").unwrap(), PathBuf::from("./x.toml"));
    }
}
