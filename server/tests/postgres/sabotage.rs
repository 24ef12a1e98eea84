//! The database without what keeps the order.

use pgtest::Postgres;

/// The line at which the function that commits has read the newest commit, and not yet used it.
const ANCHOR: &str = "IF v_seq + cardinality(p_kind) >= v_log_end THEN";
const LOCK: &str = "FOR UPDATE";

/// Numbers as a sequence gives them: each once, to whoever asks, whichever commits first.
const NUMBERS: &str = "
    PERFORM pg_advisory_lock(1);
    SELECT last_value INTO v_counter FROM public.numbers;
    PERFORM setval('public.numbers', v_counter + cardinality(p_kind));
    PERFORM pg_advisory_unlock(1);
    v_seq := v_counter;
    v_counter := v_seq + 1000;
    ";

/// Replaces the function that commits batches by one that takes no lock.
pub async fn number_without_the_lock(server: &Postgres) {
    let client = server.superuser().await.unwrap();
    let definition = "SELECT pg_get_functiondef(p.oid) FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'reports_server' AND p.proname ~ '^commit_v' ORDER BY p.oid DESC";
    let rows = client.query(definition, &[]).await.unwrap();
    for row in rows {
        let text: String = row.get(0);
        assert_eq!(text.matches(LOCK).count(), 1, "{text}");
        assert_eq!(text.matches(ANCHOR).count(), 1, "{text}");
        let text = text
            .replace(LOCK, "")
            .replace(ANCHOR, &format!("{NUMBERS}{ANCHOR}"));
        client.batch_execute(&text).await.unwrap();
    }
    // Partitions ahead: making them takes the lock.
    client
        .batch_execute(
            "CREATE SEQUENCE public.numbers;
             SELECT setval('public.numbers', max(seq)) FROM reports_server.commits;
             GRANT ALL ON public.numbers TO reports;
             SELECT reports_server.extend_log_v1(1, 2000000, 2000000)",
        )
        .await
        .unwrap();
}
