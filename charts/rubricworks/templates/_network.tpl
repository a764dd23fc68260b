{{/* Parts of NetworkPolicies. */}}

{{/* Peers that were given, or every address but link-local ones, where clouds hand out credentials. In a cluster, pods are
named beside addresses: some networks do not count pods among addresses. */}}
{{- define "rubricworks.peers" -}}
{{- if . -}}
{{ toYaml . }}
{{- else -}}
- ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
- ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::/32"]}
- namespaceSelector: {}
{{- end -}}
{{- end -}}

{{- define "rubricworks.ports" -}}
{{- range . }}
- {protocol: TCP, port: {{ int . }}}
{{- end -}}
{{- end -}}

{{/* The port of a URL. */}}
{{- define "rubricworks.portOf" -}}
{{- $host := regexReplaceAll "^[a-z]+://([^/]*).*$" . "${1}" -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" -}}
{{- if $port -}}{{ $port }}{{- else if hasPrefix "http://" . -}}80{{- else -}}443{{- end -}}
{{- end -}}

{{/* Rules of egress. */}}
{{- define "rubricworks.toStorage" -}}
{{- if include "rubricworks.trialStore" . -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace | quote }}}}
      podSelector:
        matchLabels:
          {{- include "rubricworks.selector" (dict "root" . "component" "store") | nindent 10 }}
  ports: [{protocol: TCP, port: 9000}]
{{- else -}}
- to:
    {{- include "rubricworks.peers" .Values.storage.network.to | nindent 4 }}
  ports:
    {{- $ports := default (list (include "rubricworks.portOf" (include "rubricworks.storageEndpoint" .))) .Values.storage.network.ports }}
    {{- include "rubricworks.ports" $ports | nindent 4 }}
{{- end -}}
{{- end -}}

{{- define "rubricworks.toMlflow" -}}
{{- if .Values.trial.mlflow.enabled -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace | quote }}}}
      podSelector:
        matchLabels:
          {{- include "rubricworks.selector" (dict "root" . "component" "mlflow") | nindent 10 }}
  ports: [{protocol: TCP, port: 5000}]
{{- else -}}
- to:
    {{- include "rubricworks.peers" .Values.mlflow.network.to | nindent 4 }}
  ports:
    {{- $ports := default (list (include "rubricworks.portOf" (include "rubricworks.mlflowUri" .))) .Values.mlflow.network.ports }}
    {{- include "rubricworks.ports" $ports | nindent 4 }}
{{- end -}}
{{- end -}}

{{- define "rubricworks.toModels" -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace | quote }}}}
      podSelector:
        matchLabels:
          {{- include "rubricworks.selector" (dict "root" . "component" "model") | nindent 10 }}
  ports: [{protocol: TCP, port: 8000}]
{{- end -}}

{{/* Pods of pipelines, wherever they run. */}}
{{- define "rubricworks.pipelinePeers" -}}
{{- range $namespace := include "rubricworks.pipelineNamespaces" . | fromJsonArray }}
{{- range $selector := $.Values.pipelines.podSelectors }}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ $namespace | quote }}}}
  podSelector:
    {{- toYaml $selector | nindent 4 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Other components of the release: dict "root" $ "components" list */}}
{{- define "rubricworks.ownPeers" -}}
{{- range .components }}
- podSelector:
    matchLabels:
      {{- include "rubricworks.selector" (dict "root" $.root "component" .) | nindent 6 }}
{{- end -}}
{{- end -}}

{{/* The head of a policy: dict "root" $ "name" "api" "component" "api" */}}
{{- define "rubricworks.policyHead" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "rubricworks.fullname" .root }}-{{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "rubricworks.labels" (dict "root" .root "component" (default .name .component)) | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "rubricworks.selector" (dict "root" .root "component" .component) | nindent 6 }}
{{- end -}}
