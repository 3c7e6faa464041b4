package gate

import (
	"fmt"
	"html"
	"net/http"
)

// refuse answers with a sentence.
func refuse(w http.ResponseWriter, status int, why string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, why)
}

// page answers with a page that goes on to a path.
func page(w http.ResponseWriter, path string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	path = html.EscapeString(path)
	fmt.Fprintf(w, "<!DOCTYPE html>\n<meta http-equiv=\"refresh\" content=\"0;url=%s\">\n<a href=\"%s\">Open the notebook</a>\n", path, path)
}
