{{- define "freestone.name" -}}
{{- if contains "freestone" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-freestone" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "freestone.labels" -}}
app.kubernetes.io/name: freestone
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "freestone.selector" -}}
app.kubernetes.io/name: freestone
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "freestone.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Secrets belong to root in a pod, and Freestone reads only files that nobody else can read: they are copied. */}}
{{- define "freestone.secrets" -}}
- name: secrets
  image: {{ include "freestone.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: ["/bin/sh", "-c", "install -m 600 /secrets/*/* /etc/freestone/"]
  securityContext:
    {{- include "freestone.container" . | nindent 4 }}
  volumeMounts:
    - name: users
      mountPath: /secrets/users
    - name: token
      mountPath: /secrets/token
    - name: tls
      mountPath: /secrets/tls
    - name: etc
      mountPath: /etc/freestone
{{- end -}}

{{- define "freestone.pod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "freestone.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "freestone.mounts" -}}
- name: store
  mountPath: /var/lib/freestone
- name: etc
  mountPath: /etc/freestone
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- define "freestone.volumes" -}}
- name: store
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim | default (include "freestone.name" .) }}
- name: users
  secret:
    secretName: {{ required "secrets.users is the name of a secret with the key users" .Values.secrets.users }}
    items: [{key: users, path: users}]
- name: token
  secret:
    secretName: {{ required "secrets.token is the name of a secret with the key token" .Values.secrets.token }}
    items: [{key: token, path: cluster.token}]
- name: tls
  secret:
    secretName: {{ required "secrets.tls is the name of a secret with tls.crt, tls.key and ca.crt" .Values.secrets.tls }}
    items: [{key: tls.crt, path: cert.pem}, {key: tls.key, path: key.pem}, {key: ca.crt, path: ca.pem}]
- name: etc
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: tmp
  emptyDir: {}
{{- end -}}
