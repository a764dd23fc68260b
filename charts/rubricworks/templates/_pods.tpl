{{/* What every pod of the chart has: an image that cannot change underfoot, and the restricted security context. */}}

{{/* dict "root" $ "image" "api": one of the project's images, by digest in production. */}}
{{- define "rubricworks.image" -}}
{{- $image := index .root.Values.images .image -}}
{{- if and .root.Values.production (not $image.digest) -}}
{{- fail (printf "images.%s has no digest, and production is true: set images.%s.digest to sha256:… (docker images --digests), or production to false for a trial" .image .image) -}}
{{- end -}}
{{- $repository := $image.repository -}}
{{- with .root.Values.images.registry -}}{{- $repository = printf "%s/%s" . $repository -}}{{- end -}}
{{- include "rubricworks.reference" (dict "repository" $repository "tag" (default .root.Chart.AppVersion $image.tag) "digest" $image.digest) -}}
{{- end -}}

{{- define "rubricworks.reference" -}}
{{ .repository }}:{{ .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}

{{- define "rubricworks.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.security }}
{{- if not (kindIs "invalid" .runAsUser) }}
runAsUser: {{ int64 .runAsUser }}
{{- end }}
{{- if not (kindIs "invalid" .runAsGroup) }}
runAsGroup: {{ int64 .runAsGroup }}
{{- end }}
{{- if not (kindIs "invalid" .fsGroup) }}
fsGroup: {{ int64 .fsGroup }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "rubricworks.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The head of a pod's spec: dict "root" $ "account" "api". */}}
{{- define "rubricworks.podHead" -}}
serviceAccountName: {{ include "rubricworks.serviceAccount" . | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "rubricworks.podSecurity" .root | nindent 2 }}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* dict "root" $ "values" VALUES: a component's values, with the release's own PriorityClass unless they name one. As JSON. */}}
{{- define "rubricworks.prioritised" -}}
{{- $values := deepCopy .values -}}
{{- if and .root.Values.priorityClass.create (not $values.priorityClassName) -}}
{{- $_ := set $values "priorityClassName" (include "rubricworks.priorityClass" .root) -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{/* Where a pod may run: a pool's, or a component's own values. */}}
{{- define "rubricworks.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Annotations of a Job without which the API is not ready. It is an ordinary object, named after the revision: `--wait`
never reaches a hook after an install, and a hook before one has no account yet. Argo CD, where every revision is 1, makes
it anew at each sync, beside the other objects. */}}
{{- define "rubricworks.jobOfRevision" -}}
argocd.argoproj.io/hook: Sync
argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
{{- end -}}
