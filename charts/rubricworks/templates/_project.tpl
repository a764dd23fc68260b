{{/* The project that the release is, as the API reads it (RUBRICWORKS_PROJECT). */}}

{{- define "rubricworks.projectFile" -}}
{{- with .Values.project -}}
name: {{ toJson .name }}
roles: {{ toJson .roles }}
{{- if .login.issuer }}
login:
  issuer: {{ toJson .login.issuer }}
  client_id: {{ toJson .login.clientId }}
  {{- if .login.clientSecret.existingSecret }}
  client_secret_env: RUBRICWORKS_OIDC_SECRET
  {{- end }}
  scopes: {{ toJson .login.scopes }}
  name_claim: {{ toJson .login.nameClaim }}
  groups_claim: {{ toJson .login.groupsClaim }}
  session_hours: {{ .login.sessionHours }}
{{- end }}
{{- if .tokenReview.audience }}
kubernetes: {audience: {{ toJson .tokenReview.audience }}}
{{- end }}
{{- if .budget.dollarsPerMonth }}
budget: {dollars_a_month: {{ .budget.dollarsPerMonth }}}
{{- end }}
quotas: {runs_at_once: {{ .quotas.runsAtOnce | default nil | toJson }}, gigabytes: {{ .quotas.gigabytes | default nil | toJson }}}
{{- end -}}
{{- end -}}

{{- define "rubricworks.projectEnv" -}}
{{- if .Values.project.name -}}
- {name: RUBRICWORKS_PROJECT, value: /etc/rubricworks-project/project.yaml}
{{- end -}}
{{- end -}}

{{- define "rubricworks.projectMounts" -}}
{{- if .Values.project.name -}}
- {name: project, mountPath: /etc/rubricworks-project, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "rubricworks.projectVolumes" -}}
{{- if .Values.project.name -}}
- name: project
  configMap: {name: {{ include "rubricworks.fullname" . }}-project}
{{- end -}}
{{- end -}}
