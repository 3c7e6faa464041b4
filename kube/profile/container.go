package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// Container is the name of the container that serves, as kubespawner has it.
const Container = "notebook"

// homeOfController is where a notebook's controller has a container work that
// says nothing else.
const homeOfController = "/home/jovyan"

// port is where a notebook serves.
const port = 8888

// container makes what is of the container alone.
func (m *maker) container() error {
	image, err := m.text("image")
	if err != nil {
		return err
	}
	if image == "" {
		return m.fail("image", "there is no image; set kubespawner_override.image, or image.name and image.tag in singleuser")
	}
	policy, err := m.text("image_pull_policy")
	if err != nil {
		return err
	}
	switch policy {
	case "", string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever):
	default:
		return m.fail("image_pull_policy", "%q: it is Always, IfNotPresent or Never", policy)
	}
	dir, err := m.workingDir()
	if err != nil {
		return err
	}
	at := int64(port)
	if n, err := m.whole("port"); err != nil {
		return err
	} else if n != nil {
		at = *n
	}
	m.main = corev1.Container{
		Name: Container, Image: image, ImagePullPolicy: corev1.PullPolicy(policy), WorkingDir: dir,
		Ports: []corev1.ContainerPort{{Name: "notebook-port", ContainerPort: int32(at), Protocol: corev1.ProtocolTCP}},
	}
	if strings.HasPrefix(image, sampleImage+":") && !strings.HasPrefix(m.from("image"), "kubespawner") {
		m.warn(CodeOther, Remark, "image", "", "the chart's sample image, which has no GPU libraries: %s", image)
	}
	if why := MovingTag(image); why != "" {
		m.warn(CodeMovingTag, Doubt, "image", "", "%s", why)
	}
	if err := m.secrets(); err != nil {
		return err
	}
	var hooks corev1.Lifecycle
	if err := m.into("lifecycle_hooks", objects, &hooks); err != nil {
		return err
	}
	if hooks.PostStart != nil || hooks.PreStop != nil {
		m.main.Lifecycle = &hooks
	}
	return nil
}

// workingDir returns the folder that the container works in: that of a profile, else that
// of hub.config.
func (m *maker) workingDir() (string, error) {
	if dir, err := m.text("working_dir"); dir != "" || err != nil || m.from("working_dir") != "working_dir" {
		return dir, err
	}
	dir, err := m.text(workingDirOfHub)
	if err == nil {
		dir, err = m.names.expand(dir)
	}
	if err != nil {
		return "", m.fail(workingDirOfHub, "%w", err)
	}
	return dir, nil
}

// secrets reads image_pull_secrets, a list of names or of {name: ...}.
func (m *maker) secrets() error {
	list, isList := m.set.Values["image_pull_secrets"].([]any)
	if !isList && m.set.Values["image_pull_secrets"] != nil {
		return m.fail("image_pull_secrets", "it must be a list")
	}
	for i, each := range list {
		if name, ok := each.(string); ok {
			list[i] = map[string]any{"name": name}
		}
	}
	if len(list) > 0 && m.from("image_pull_secrets") == "imagePullSecret.create" {
		m.warn(CodeOther, Remark, "image_pull_secrets", "", "the pod refers to Secret %s, which the hub's chart creates in the hub's namespace; create it in the notebooks' namespaces too", createdPullSecret)
	}
	return m.into("image_pull_secrets", objects, &m.pod.ImagePullSecrets)
}

// containers reads init containers and sidecars.
func (m *maker) containers() error {
	if err := m.list("init_containers", expandTexts, &m.pod.InitContainers); err != nil {
		return err
	}
	return m.list("extra_containers", expandTexts, &m.pod.Containers)
}

// command sets what is run. Like kubespawner it sets the container's args, so
// that the entry point of the image stays. JupyterHub's own server needs a hub,
// so that what it starts is started instead, at the notebook's prefix.
func (m *maker) command() error {
	var cmd, args []string
	if one, ok := m.set.Values["cmd"].(string); ok {
		cmd = []string{one}
	} else if err := m.into("cmd", 0, &cmd); err != nil {
		return err
	}
	if err := m.into("args", 0, &args); err != nil {
		return err
	}
	if err := m.extraFile(append(slices.Clone(cmd), args...)); err != nil {
		return err
	}
	url, err := m.text("default_url")
	if err != nil {
		return err
	}
	dir, err := m.text("notebook_dir")
	if err != nil {
		return err
	}
	if url, err = m.names.expand(url); err != nil {
		return m.fail("default_url", "%w", err)
	}
	if dir, err = m.names.expand(dir); err != nil {
		return m.fail("notebook_dir", "%w", err)
	}
	switch {
	case len(cmd) == 0:
		if len(args) > 0 {
			m.warn(CodeOther, Remark, "args", "", "args are not used where cmd is null: the command of the image runs, as in JupyterHub")
		}
		m.warn(CodeOther, Remark, "cmd", "", "the command of the image runs; it must serve at $(NB_PREFIX) on port %d", m.main.Ports[0].ContainerPort)
	case strings.HasSuffix(cmd[0], "jupyterhub-singleuser"):
		m.main.Args = append(m.jupyter(url, dir), append(cmd[1:], args...)...)
		return nil
	default:
		m.main.Args = append(cmd, args...)
		m.needsHub(m.main.Args)
	}
	if url != "" {
		m.env["JUPYTERHUB_DEFAULT_URL"] = url
	}
	if dir != "" {
		m.env["JUPYTERHUB_ROOT_DIR"] = dir
	}
	return nil
}

// extraFile refuses a command that is one of the chart's extraFiles: they are in a
// Secret of the hub, so the notebook would not start.
func (m *maker) extraFile(cmd []string) error {
	files, _ := m.set.Values["extra_files"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, _ := at(files[name], "mountPath").(string)
		if path != "" && slices.ContainsFunc(cmd, func(word string) bool { return strings.Contains(word, path) }) {
			return m.fail("cmd", "%s is the file %s of extraFiles, which the hub's chart keeps in a Secret; put it into the image, or mount a ConfigMap with storage.extraVolumes and storage.extraVolumeMounts", path, name)
		}
	}
	return nil
}

// hubCommands are words of commands that start a server which asks a hub who its
// user is.
var hubCommands = []string{"jupyterhub-singleuser", "jhsingle-native-proxy", "start-singleuser", "jupyterhub_singleuser"}

// needsHub warns of a command that is started as it is and asks a hub.
func (m *maker) needsHub(cmd []string) {
	for _, word := range cmd {
		for _, of := range hubCommands {
			if strings.Contains(word, of) {
				m.warn(CodeOther, Doubt, "cmd", "", "%s needs the token of a JupyterHub, which a notebook does not have: it would end at once; use jupyterhub-singleuser alone, which is replaced by jupyter lab, or a command that serves at $(NB_PREFIX)", word)
				return
			}
		}
	}
	if strings.Contains(strings.Join(cmd, " "), "NB_PREFIX") {
		return
	}
	m.warn(CodeOther, Remark, "cmd", "", "the command runs as it is; it must serve at $(NB_PREFIX) on port %d, without a hub", m.main.Ports[0].ContainerPort)
}

// jupyter is the command line of a Jupyter server behind the notebook's prefix. It
// asks for the token that Berth's controller adds as a variable. Where none is added,
// as behind Istio and by Kubeflow's controller, who may reach it is decided before it,
// as with Kubeflow's images: then the file that would have a token is empty, and it
// asks for none. Pages of other origins may not use it in any case. url is the page to open, and dir the folder to show; "" is Jupyter's own.
func (m *maker) jupyter(url, dir string) []string {
	m.token = api.TokenJupyter
	m.env["JUPYTER_TOKEN_FILE"] = "/dev/null"
	args := []string{
		"jupyter", "lab", "--no-browser", "--ServerApp.ip=0.0.0.0",
		fmt.Sprintf("--ServerApp.port=%d", m.main.Ports[0].ContainerPort), "--ServerApp.base_url=$(NB_PREFIX)",
		"--ServerApp.password=",
	}
	if url != "" {
		args = append(args, "--ServerApp.default_url="+url)
	}
	if dir != "" {
		args = append(args, "--ServerApp.root_dir="+dir)
	}
	return args
}

// MovingTag says in a sentence why the image's tag can mean another image
// tomorrow, or why there is no such image; "" is that it is fixed.
func MovingTag(image string) string {
	if strings.Contains(image, "@sha256:") {
		return ""
	}
	if i := strings.IndexAny(image, "<> \t"); i >= 0 {
		return "image " + image + " is not the name of an image: put a tag where the document has " + image[i:]
	}
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, tagged := strings.Cut(name, ":")
	switch {
	case !tagged:
		return "image " + image + " has no tag, which is latest: it changes under its users; give it a fixed tag"
	case tag == "latest" || tag == "master" || tag == "main":
		return "image " + image + ": the tag " + tag + " changes under its users; give it a fixed one"
	}
	return ""
}
