{{/* Labels of every object, beside those of its kind. */}}
{{- define "reports-server-operator.labels" -}}
{{ include "reports-server-operator.ownLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The same without those of the values. */}}
{{- define "reports-server-operator.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Labels of what is not in every installation. */}}
{{- define "reports-server-operator.extraLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/part-of: reports-server
{{ include "reports-server-operator.labels" . }}
{{- end }}

{{/* Name of the operator's account. */}}
{{- define "reports-server-operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default "reports-server-operator" }}
{{- end }}

{{/* An image: the root, and the name of the image's values. */}}
{{- define "reports-server-operator.image" -}}
{{- $root := index . 0 -}}
{{- $image := index $root.Values.images (index . 1) -}}
{{- with $root.Values.images.registry | default $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if or $image.tag (not $image.digest) }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{/* Name under which Prometheus verifies the certificate of the operator's metrics. */}}
{{- define "reports-server-operator.metricsHost" -}}
{{- .Values.metrics.serverName | default (printf "reports-server-operator-metrics.%s.svc" .Release.Namespace) }}
{{- end }}

{{/* Port of the collector of traces. */}}
{{- define "reports-server-operator.tracingPort" -}}
{{- $url := urlParse .Values.tracing.endpoint }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end }}

{{/* Pod of a hook: the root, the account, and the arguments. */}}
{{- define "reports-server-operator.hookPod" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 1 | quote }}
automountServiceAccountToken: true
enableServiceLinks: false
restartPolicy: Never
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- include "reports-server-operator.placement" $root }}
{{- with ($root.Values.affinity | default dict).nodeAffinity }}
affinity:
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
{{- end }}
containers:
- name: hook
  image: {{ include "reports-server-operator.image" (list $root "operator") | quote }}
  imagePullPolicy: {{ $root.Values.images.pullPolicy }}
  args:
    {{- toYaml (index . 2) | nindent 4 }}
  env:
  - name: POD_NAMESPACE
    value: {{ $root.Release.Namespace | quote }}
  resources:
    {{- toYaml $root.Values.resources | nindent 4 }}
  securityContext:
    {{- toYaml $root.Values.securityContext | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{/* The rule of a NetworkPolicy for DNS, whose pods listen on 5353 on OpenShift. */}}
{{- define "reports-server-operator.dns" -}}
# DNS.
- ports:
  - port: 53
    protocol: UDP
  - port: 53
    protocol: TCP
  - port: 5353
    protocol: UDP
  - port: 5353
    protocol: TCP
{{- end }}

{{/* Labels of the pod of a hook. */}}
{{- define "reports-server-operator.hookLabels" -}}
app.kubernetes.io/component: hook
{{ include "reports-server-operator.extraLabels" . }}
{{- end }}

{{/* Where a pod may run, and how its images are pulled. What keeps operators apart is not among it: a
hook would find no node where each has one. */}}
{{- define "reports-server-operator.placement" }}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
