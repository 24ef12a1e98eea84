//! A data directory that is made once, and copied for every server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use tokio::sync::Mutex;

use crate::account::Account;
use crate::binaries::Binaries;
use crate::command::run;

/// The application's role. It owns the database and is no superuser.
pub const USER: &str = "reports";
/// The application's database.
pub const DATABASE: &str = "reports";

/// Revision of the directory; raised when the code below changes.
const REVISION: u32 = 2;

/// The lock for one at a time in this process. Others may do the same at the same time: the first
/// to finish wins.
static MAKING: Mutex<()> = Mutex::const_new(());

/// Makes `data`, which must not exist, a fresh data directory with the application's role (without
/// a password yet) and database.
///
/// The database sorts text as people do (by ICU), as most databases out there: a client that needs
/// an order by bytes has to say so.
pub async fn copy_to(data: &Path, binaries: &Binaries, account: Account) -> Result<()> {
    let template = template(binaries, account).await?;
    copy(&template, data).await
}

/// Copies a directory, with owners and modes.
pub async fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    command
        .args(["-a", "--reflink=auto", "-T"])
        .arg(from)
        .arg(to);
    run(command, "").await.map(drop)
}

async fn template(binaries: &Binaries, account: Account) -> Result<PathBuf> {
    let name = format!("template-{}-{REVISION}", binaries.version());
    let folder = cache()?.join("postgres");
    let path = folder.join(name);
    let _one = MAKING.lock().await;
    if path.join("PG_VERSION").exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    // The database's user may not be able to reach the cache: made elsewhere, then copied.
    let scratch = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()?;
    account.own(scratch.path())?;
    let data = scratch.path().join("data");
    make(&data, binaries, account).await?;
    let staged = tempfile::Builder::new()
        .prefix(".new-")
        .tempdir_in(&folder)?;
    copy(&data, &staged.path().join("data")).await?;
    let renamed = std::fs::rename(staged.path().join("data"), &path);
    if !path.join("PG_VERSION").exists() {
        renamed.with_context(|| format!("cannot make {}", path.display()))?;
    }
    Ok(path)
}

async fn make(data: &Path, binaries: &Binaries, account: Account) -> Result<()> {
    let mut initdb = account.command(binaries.path("initdb"));
    initdb
        .arg("-D")
        .arg(data)
        .args(["--username=postgres", "--auth=trust", "--no-sync"])
        .args(["--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums"])
        .current_dir("/");
    if binaries.major() >= 15 {
        initdb.args(["--locale-provider=icu", "--icu-locale=en-US"]);
    }
    run(initdb, "").await?;
    let mut single = account.command(binaries.path("postgres"));
    single
        .args(["--single", "-F", "-D"])
        .arg(data)
        .arg("template1")
        .current_dir("/");
    // One database less makes a copy a quarter cheaper.
    let sql = format!(
        "CREATE ROLE {USER} LOGIN;\n\
         ALTER DATABASE postgres RENAME TO {DATABASE};\n\
         ALTER DATABASE {DATABASE} OWNER TO {USER};\n"
    );
    run(single, &sql).await.map(drop)
}

/// Returns the cache, as hack/lib/common.sh does.
fn cache() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    variable("REPORTS_SERVER_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("reports-server")))
        .or_else(|| Some(variable("HOME")?.join(".cache/reports-server")))
        .context("no place for a cache: set HOME or REPORTS_SERVER_CACHE")
}
