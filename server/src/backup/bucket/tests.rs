use super::*;

fn place(endpoint: Option<&str>, bucket: &str) -> Place {
    Place {
        bucket: bucket.to_owned(),
        endpoint: endpoint.map(|endpoint| endpoint.parse().unwrap()),
        region: "eu-west-1".to_owned(),
        ..Place::default()
    }
}

#[test]
fn aws_is_asked_by_the_name_of_the_bucket_and_others_by_path() {
    let url = |place: &Place| bucket(place).unwrap().base_url().to_string();
    assert_eq!(
        url(&place(None, "mine")),
        "https://mine.s3.eu-west-1.amazonaws.com/"
    );
    assert_eq!(
        url(&place(None, "my.own")),
        "https://s3.eu-west-1.amazonaws.com/my.own/"
    );
    assert_eq!(
        url(&place(Some("https://minio.example:9000"), "mine")),
        "https://minio.example:9000/mine/"
    );
    assert!(bucket(&place(Some("ftp://x.example"), "mine")).is_err());
}

#[test]
fn a_prefix_is_a_folder() {
    for text in ["a/b", "/a/b", "a/b/"] {
        assert_eq!(prefix(text), "a/b/");
    }
    assert_eq!(prefix("/"), "");
}

#[test]
fn only_backups_are_listed() {
    let page = ListObjectsV2::parse_response(
        r#"<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
        <Contents><Key>a/one.dump</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>
        <Contents><Key>a/notes.txt</Key></Contents>
        <Contents><Key>a/b/two.dump</Key></Contents>
        <IsTruncated>false</IsTruncated></ListBucketResult>"#,
    )
    .unwrap();
    let found = backups(&page, "a/");
    let modified = "2026-01-01T00:00:00Z".parse().ok();
    assert_eq!(
        found,
        [Stored {
            name: "one".to_owned(),
            modified
        }]
    );
}
