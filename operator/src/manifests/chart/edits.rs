//! The edits by which the chart replaces text in the objects of the installation. Each text has to
//! be there exactly once, so that no change of an object passes the chart by.

use serde_json::Value;

use crate::manifests::error::Error;
use crate::manifests::render::Document;

/// A text of an object, and what stands in its place.
pub(super) type Edit = (&'static str, &'static str);

/// Name of the operator's account.
pub(super) const ACCOUNT: &str = r#"{{ include "reports-server-operator.serviceAccountName" . }}"#;

/// The CRD stays by a value.
pub(super) const CRD: [Edit; 1] = [(
    "\n  annotations:\n",
    "
  annotations:
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
",
)];

/// The account has annotations by a value.
pub(super) const SERVICE_ACCOUNT: [Edit; 1] = [(
    "\nmetadata:\n",
    "
metadata:
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
",
)];

/// The monitor has labels by a value, which win over those of all objects, and reads the metrics as
/// they are served: over TLS, whose certificate it verifies where that is not the operator's own, or
/// in plain.
pub(super) const MONITOR: [Edit; 3] = [
    (
        "    {{- include \"reports-server-operator.labels\" . | nindent 4 }}\n",
        r#"    {{- include "reports-server-operator.ownLabels" . | nindent 4 }}
    {{- $labels := .Values.monitoring.serviceMonitor.labels | default dict }}
    {{- with merge dict $labels (.Values.commonLabels | default dict) }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
"#,
    ),
    (
        "  - bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
    interval: 30s
",
        "  - interval: 30s
",
    ),
    (
        "    scheme: https
    tlsConfig:
      insecureSkipVerify: true
",
        r#"    {{- if .Values.metrics.secure }}
    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
    scheme: https
    tlsConfig:
      {{- if .Values.metrics.certSecret }}
      ca:
        secret:
          key: ca.crt
          name: {{ .Values.metrics.certSecret | quote }}
      serverName: {{ include "reports-server-operator.metricsHost" . | quote }}
      {{- else }}
      insecureSkipVerify: true
      {{- end }}
    {{- else }}
    scheme: http
    {{- end }}
"#,
    ),
];

/// The quota admits the priority class of the values.
pub(super) const PRIORITY_QUOTA: [Edit; 1] = [(
    "      - system-cluster-critical\n",
    "      - {{ .Values.priorityClassName }}\n",
)];

/// Fields of the Deployment that become values as a whole.
const FIELDS: [(&str, &str); 5] = [
    ("/spec/template/spec/securityContext", "@POD_SECURITY@"),
    (
        "/spec/template/spec/containers/0/securityContext",
        "@CONTAINER_SECURITY@",
    ),
    ("/spec/template/spec/containers/0/resources", "@RESOURCES@"),
    ("/spec/template/spec/affinity", "@AFFINITY@"),
    ("/spec/template/spec/priorityClassName", "@PRIORITY_CLASS@"),
];

/// Returns the Deployment with marks in the fields that become values as a whole.
pub(super) fn marked(mut document: Document) -> Document {
    for (pointer, mark) in FIELDS {
        if let Some(field) = document.object.pointer_mut(pointer) {
            *field = Value::from(mark);
        }
    }
    document
}

/// The values of the Deployment.
pub(super) const DEPLOYMENT: [Edit; 16] = [
    ("  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n"),
    (
        "      affinity: '@AFFINITY@'\n",
        "      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
",
    ),
    // It is among what the helper "placement" writes, for the pods of hooks, too.
    ("      priorityClassName: '@PRIORITY_CLASS@'\n", ""),
    (
        "  template:\n    metadata:\n",
        "  template:
    metadata:
      {{- with .Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
",
    ),
    (
        "        app.kubernetes.io/part-of: reports-server\n",
        "        app.kubernetes.io/part-of: reports-server
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
",
    ),
    (
        "        - run\n",
        "        - run
        {{- if not .Values.metrics.secure }}
        - --metrics-secure=false
        {{- end }}
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
",
    ),
    (
        "value: '@SERVER@'\n",
        r#"value: {{ include "reports-server-operator.image" (list . "server") | quote }}
"#,
    ),
    (
        "value: '@POSTGRES@'\n",
        r#"value: {{ include "reports-server-operator.image" (list . "postgres") | quote }}
        {{- if .Values.serviceAccount.name }}
        - name: SERVICE_ACCOUNT
          value: {{ .Values.serviceAccount.name | quote }}
        {{- end }}
        {{- if ne .Values.logLevel "info" }}
        - name: LOG_LEVEL
          value: {{ .Values.logLevel | quote }}
        {{- end }}
        {{- if .Values.tracing.endpoint }}
        - name: TRACING_ENDPOINT
          value: {{ .Values.tracing.endpoint | quote }}
        - name: TRACING_SAMPLING_RATE_PER_MILLION
          value: {{ .Values.tracing.samplingRatePerMillion | int | quote }}
        {{- if .Values.tracing.caSecret }}
        - name: TRACING_CA_FILE
          value: /etc/reports-server-operator-tracing-ca/ca.crt
        {{- end }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
"#,
    ),
    (
        "image: '@OPERATOR@'\n",
        r#"image: {{ include "reports-server-operator.image" (list . "operator") | quote }}
"#,
    ),
    (
        "imagePullPolicy: IfNotPresent\n",
        "imagePullPolicy: {{ .Values.images.pullPolicy }}\n",
    ),
    (
        "resources: '@RESOURCES@'\n",
        "resources:\n          {{- toYaml .Values.resources | nindent 10 }}\n",
    ),
    (
        "securityContext: '@CONTAINER_SECURITY@'\n",
        "securityContext:\n          {{- toYaml .Values.securityContext | nindent 10 }}\n",
    ),
    (
        "securityContext: '@POD_SECURITY@'\n",
        "securityContext:\n        {{- toYaml .Values.podSecurityContext | nindent 8 }}\n",
    ),
    (
        "secretName: reports-server-operator-metrics-cert\n",
        r#"secretName: {{ .Values.metrics.certSecret | default "reports-server-operator-metrics-cert" | quote }}
"#,
    ),
    (
        "secretName: reports-server-operator-tracing-ca\n",
        r#"secretName: {{ .Values.tracing.caSecret | default "reports-server-operator-tracing-ca" | quote }}
"#,
    ),
    (
        "serviceAccountName: '@ACCOUNT@'\n",
        r#"serviceAccountName: '@ACCOUNT@'
      {{- with include "reports-server-operator.placement" . }}
      {{- trim . | nindent 6 }}
      {{- end }}
"#,
    ),
];

/// Returns the text with each edit made.
pub(super) fn edited(text: String, edits: &[Edit]) -> Result<String, Error> {
    edits.iter().try_fold(text, |text, (from, to)| {
        if text.matches(from).count() == 1 {
            Ok(text.replacen(from, to, 1))
        } else {
            Err(Error::Edit((*from).to_owned()))
        }
    })
}
