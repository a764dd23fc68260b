{{/* What programs are told of the store, of MLflow and of the database. Secrets by reference alone. */}}

{{- define "rubricworks.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}
{{- end -}}

{{- define "rubricworks.storageUri" -}}
{{- if .Values.storage.uri -}}
{{- .Values.storage.uri | trimSuffix "/" -}}
{{- else -}}
{{- fail "storage.uri is empty: name the bucket that holds the runs, storage.uri=s3://bucket/prefix" -}}
{{- end -}}
{{- end -}}

{{- define "rubricworks.storageEndpoint" -}}
{{- if .Values.storage.endpoint -}}
{{- .Values.storage.endpoint | trimSuffix "/" -}}
{{- else if include "rubricworks.trialStore" . -}}
http://{{ include "rubricworks.fullname" . }}-s3.{{ .Release.Namespace }}.svc:9000
{{- end -}}
{{- end -}}

{{- define "rubricworks.mlflowUri" -}}
{{- if .Values.mlflow.uri -}}
{{- .Values.mlflow.uri | trimSuffix "/" -}}
{{- else if .Values.trial.mlflow.enabled -}}
http://{{ include "rubricworks.fullname" . }}-mlflow.{{ .Release.Namespace }}.svc:5000
{{- else -}}
{{- fail "mlflow.uri is empty: name your MLflow server, mlflow.uri=https://…, or take the one of values-trial.yaml" -}}
{{- end -}}
{{- end -}}

{{/* The keys of the store. */}}
{{- define "rubricworks.storageKeys" -}}
{{- with .Values.storage.credentials -}}
{{- if .existingSecret -}}
{{ include "rubricworks.secretEnv" (dict "name" "AWS_ACCESS_KEY_ID" "secret" .existingSecret "key" .accessKeyKey) }}
{{ include "rubricworks.secretEnv" (dict "name" "AWS_SECRET_ACCESS_KEY" "secret" .existingSecret "key" .secretKeyKey) }}
{{- with .sessionTokenKey }}
{{ include "rubricworks.secretEnv" (dict "name" "AWS_SESSION_TOKEN" "secret" $.Values.storage.credentials.existingSecret "key" .) }}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rubricworks.storageEnv" -}}
- {name: RUBRICWORKS_STORAGE, value: {{ include "rubricworks.storageUri" . | quote }}}
- {name: AWS_REGION, value: {{ .Values.storage.region | quote }}}
{{- with include "rubricworks.storageEndpoint" . }}
- {name: AWS_ENDPOINT_URL_S3, value: {{ . | quote }}}
{{- end }}
{{- if .Values.storage.ca.existingConfigMap }}
- {name: AWS_CA_BUNDLE, value: /etc/rubricworks/storage-ca/{{ .Values.storage.ca.key }}}
{{- end }}
{{- with .Values.storage.encryption }}
{{- if .kind }}
- {name: RUBRICWORKS_S3_SSE, value: {{ .kind | quote }}}
{{- end }}
{{- if .existingSecret }}
{{ include "rubricworks.secretEnv" (dict "name" "RUBRICWORKS_S3_SSE_KEY" "secret" .existingSecret "key" .key) }}
{{- end }}
{{- end }}
{{- with include "rubricworks.storageKeys" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "rubricworks.storageMounts" -}}
{{- if .Values.storage.ca.existingConfigMap -}}
- {name: storage-ca, mountPath: /etc/rubricworks/storage-ca, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "rubricworks.storageVolumes" -}}
{{- with .Values.storage.ca -}}
{{- if .existingConfigMap -}}
- name: storage-ca
  configMap: {name: {{ .existingConfigMap | quote }}, items: [{key: {{ .key | quote }}, path: {{ .key | quote }}}]}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rubricworks.mlflowEnv" -}}
- {name: MLFLOW_TRACKING_URI, value: {{ include "rubricworks.mlflowUri" . | quote }}}
{{- with .Values.mlflow.credentials }}
{{- if .existingSecret }}
{{- if .usernameKey }}
{{ include "rubricworks.secretEnv" (dict "name" "MLFLOW_TRACKING_USERNAME" "secret" .existingSecret "key" .usernameKey) }}
{{ include "rubricworks.secretEnv" (dict "name" "MLFLOW_TRACKING_PASSWORD" "secret" .existingSecret "key" .passwordKey) }}
{{- end }}
{{- if .tokenKey }}
{{ include "rubricworks.secretEnv" (dict "name" "MLFLOW_TRACKING_TOKEN" "secret" .existingSecret "key" .tokenKey) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Beside the runs, not among them: retention deletes below storage.uri. */}}
{{- define "rubricworks.pipelineRoot" -}}
{{ include "rubricworks.storageUri" . }}-kubeflow
{{- end -}}

{{/* The API as runs call it, which alone moves aliases; empty where they move them themselves. */}}
{{- define "rubricworks.apiOfPipelines" -}}
{{- if .Values.api.enabled -}}
http://{{ include "rubricworks.fullname" . }}-api.{{ .Release.Namespace }}.svc:{{ .Values.api.service.port }}
{{- end -}}
{{- end -}}

{{/* Not empty where runs have a token of the API. */}}
{{- define "rubricworks.runsCallApi" -}}
{{- if .Values.api.enabled }}{{ .Values.pipelines.apiToken.existingSecret }}{{ end -}}
{{- end -}}
