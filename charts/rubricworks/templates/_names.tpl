{{/* Names and labels. A name leaves room for what is put behind it: 63 characters for a Service, 52 for a CronJob. */}}

{{- define "rubricworks.chart" -}}
{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* A Service's name begins with a letter and has no dots; a release's may. */}}
{{- define "rubricworks.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := printf "%s-%s" .Release.Name $name -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $full = .Release.Name -}}
{{- end -}}
{{- $full = replace "." "-" $full -}}
{{- if regexMatch "^[0-9]" $full -}}{{- $full = printf "r%s" $full -}}{{- end -}}
{{- $full | trunc 33 | trimSuffix "-" -}}
{{- end -}}

{{/* What finds the pods of one component: dict "root" $ "component" "api". Never changes in an upgrade. */}}
{{- define "rubricworks.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- if .component }}
app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- if .model }}
rubricworks/model: {{ .model | quote }}
{{- end }}
{{- end -}}

{{/* Of every object. */}}
{{- define "rubricworks.labels" -}}
{{ include "rubricworks.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ include "rubricworks.chart" .root }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of pods: nothing that changes with the chart's version, or an upgrade would load every model anew. */}}
{{- define "rubricworks.podLabels" -}}
{{ include "rubricworks.selector" . }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rubricworks.modelName" -}}
{{ include "rubricworks.fullname" .root }}-model-{{ .model }}
{{- end -}}

{{/* dict "root" $ "account" "api" */}}
{{- define "rubricworks.serviceAccount" -}}
{{- $given := index .root.Values.serviceAccounts .account -}}
{{- default (printf "%s-%s" (include "rubricworks.fullname" .root) .account) $given.name -}}
{{- end -}}

{{- define "rubricworks.trialStore" -}}
{{- if or .Values.trial.minio.enabled .Values.trial.seaweedfs.enabled -}}true{{- end -}}
{{- end -}}

{{- define "rubricworks.pipelineNamespaces" -}}
{{- default (list .Release.Namespace) .Values.pipelines.namespaces | toJson -}}
{{- end -}}

{{- /* dict "host" HOST "tls" api.ingress.tls: true if an entry covers the host; one without hosts covers all. */ -}}
{{- define "rubricworks.hasTls" -}}
{{- $host := .host -}}
{{- $covered := list -}}
{{- range .tls -}}{{- $covered = concat $covered (default (list $host) .hosts) -}}{{- end -}}
{{- if or (has $host $covered) (has (regexReplaceAll "^[^.]+" $host "*") $covered) -}}true{{- end -}}
{{- end -}}

{{- /* The address for browsers: the first host of the ingress with TLS; empty without one. */ -}}
{{- define "rubricworks.publicUrl" -}}
{{- $urls := list -}}
{{- with .Values.api.ingress -}}
{{- range $host := ternary .hosts list .enabled -}}
{{- if and (include "rubricworks.hasTls" (dict "host" $host.host "tls" $.Values.api.ingress.tls)) (not (hasPrefix "*" $host.host)) -}}
{{- $urls = append $urls (printf "https://%s" $host.host) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- first (append $urls "") -}}
{{- end -}}

{{- /* Of the whole cluster, so the namespace is a part of the name. */ -}}
{{- define "rubricworks.priorityClass" -}}
{{- printf "%s-serving-%s" (include "rubricworks.fullname" .) .Release.Namespace | trimSuffix "-" -}}
{{- end -}}
