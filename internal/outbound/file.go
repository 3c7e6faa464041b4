package outbound

import (
	"errors"
	"fmt"
	"strings"

	"berth.dev/berth/internal/input"
	"berth.dev/berth/internal/strictyaml"
)

// mostBytes bounds a file of credentials, a token, and a password.
const mostBytes = 1 << 20

// written is an item of a file of credentials. The names of its fields are those of Prometheus' http_config
// (https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config).
type written struct {
	URL           string         `json:"url"`
	Authorization *authorization `json:"authorization"`
	Basic         *basic         `json:"basic_auth"` //nolint:tagliatelle // Prometheus'
	TLS           tls            `json:"tls_config"` //nolint:tagliatelle // Prometheus'
}

type authorization struct {
	Type  string `json:"type"`
	Token string `json:"credentials"`
	File  string `json:"credentials_file"` //nolint:tagliatelle // Prometheus'
}

type basic struct {
	Username string `json:"username"`
	Password string `json:"password"`
	File     string `json:"password_file"` //nolint:tagliatelle // Prometheus'
}

type tls struct {
	CA         string `json:"ca_file"`              //nolint:tagliatelle // Prometheus'
	Cert       string `json:"cert_file"`            //nolint:tagliatelle // Prometheus'
	Key        string `json:"key_file"`             //nolint:tagliatelle // Prometheus'
	ServerName string `json:"server_name"`          //nolint:tagliatelle // Prometheus'
	Insecure   bool   `json:"insecure_skip_verify"` //nolint:tagliatelle // Prometheus'
}

// parse reads the text of a file.
func parse(path string, data []byte) ([]written, error) {
	var out struct {
		URLs []written `json:"urls"`
	}
	if err := strictyaml.Decode(path, data, &out); err != nil {
		return nil, err
	}
	if len(out.URLs) == 0 {
		return nil, fmt.Errorf("%s has no credentials; list them under urls, each with a url", path)
	}
	return out.URLs, nil
}

// secret returns the token. in gives the path of a file.
func (a *authorization) secret(in func(string) string) (string, error) {
	return secret("credentials", a.Token, "credentials_file", in(a.File))
}

// secret returns the password.
func (b *basic) secret(in func(string) string) (string, error) {
	return secret("password", b.Password, "password_file", in(b.File))
}

// secret is a value, or what a file has without the space around it.
func secret(field, value, fileField, file string) (string, error) {
	switch {
	case value != "" && file != "":
		return "", fmt.Errorf("%s and %s are both set; remove one", field, fileField)
	case value == "" && file == "":
		return "", fmt.Errorf("set %s or %s", field, fileField)
	case value != "":
		return value, nil
	}
	raw, err := input.ReadFile(file, mostBytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", fileField, err)
	}
	if value = strings.TrimSpace(string(raw)); value == "" || strings.ContainsAny(value, "\r\n") {
		return "", errors.New(fileField + ": " + file + " must have one line of text")
	}
	return value, nil
}
