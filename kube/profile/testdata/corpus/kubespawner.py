"""Writes what kubespawner itself makes of the files of this folder.

    python3 kubespawner.py CHECKOUTS

CHECKOUTS has the folders kubespawner, jupyterhub, traitlets and kubernetes_asyncio (the
packages of these names), escapism.py, and zero-to-jupyterhub-k8s (a checkout of the
chart). Nothing is installed: what only a running hub needs is left out.
"""
import asyncio, copy, glob, importlib, json, os, re, sys, types
from unittest import mock

import yaml

FOLDER, CHECKOUTS = os.path.dirname(os.path.abspath(__file__)), os.path.abspath(sys.argv[1])
CHART = os.path.join(CHECKOUTS, "zero-to-jupyterhub-k8s", "jupyterhub")
sys.path.insert(0, CHECKOUTS)


class Refused(Exception):
    pass


def module(name, folder=None, **content):
    m = types.ModuleType(name)
    if folder:
        m.__path__ = [os.path.join(CHECKOUTS, folder)]
    for key, value in content.items():
        setattr(m, key, value)
    sys.modules[name] = m
    return m


class Api:
    def plain(self, o):
        if o is None or isinstance(o, (str, int, float, bool)):
            return o
        if isinstance(o, (list, tuple)):
            return [self.plain(x) for x in o]
        if not isinstance(o, dict):
            o = {o.attribute_map[a]: getattr(o, a) for a in o.openapi_types if getattr(o, a) is not None}
        return {k: self.plain(v) for k, v in o.items()}


def stand_ins():
    """Puts modules in place of those that are not there."""
    for name in ["sqlalchemy", "sqlalchemy.exc", "tornado", "tornado.web", "tornado.ioloop", "tornado.log", "tornado.httpclient", "aiohttp", "idna"]:
        sys.modules[name] = mock.MagicMock()
    sys.modules["sqlalchemy.exc"].SQLAlchemyError = Refused
    module("slugify", slugify=lambda s: re.sub("[^a-z0-9]+", "-", s.lower()).strip("-"))
    hub = module("jupyterhub", "jupyterhub", __version__="5")
    for name in ["orm", "objects", "roles", "httpclient"]:
        setattr(hub, name, mock.MagicMock())
        sys.modules["jupyterhub." + name] = getattr(hub, name)
    hub.objects.Server = type("Server", (), {})
    package = module("kubernetes_asyncio", "kubernetes_asyncio")
    package.client = module("kubernetes_asyncio.client", "kubernetes_asyncio/client")
    package.watch = module("kubernetes_asyncio.watch", Watch=object)
    module("kubernetes_asyncio.config")
    module("kubernetes_asyncio.client.rest", ApiException=Refused)
    package.client.models = importlib.import_module("kubernetes_asyncio.client.models")
    for name in dir(package.client.models):
        if name.startswith(("V1", "Core")):
            setattr(package.client, name, getattr(package.client.models, name))
    module("kubespawner.clients", load_config=lambda *a, **k: None, shared_client=lambda *a, **k: None)


def parts(text):
    out, name = {}, None
    for line in text.splitlines(keepends=True):
        if m := re.match(r"^-- (.+) --\s*$", line):
            name = m.group(1)
            out[name] = ""
        elif name:
            out[name] += line
    return out


def over(under, values):
    out = dict(under)
    for k, v in values.items():
        out[k] = over(out[k], v) if isinstance(v, dict) and isinstance(out.get(k), dict) else v
    return out


def chart_values(doc):
    """Returns the chart's values in a file, which may be those of a chart around it."""
    for path in (["jupyterhub"], ["basehub", "jupyterhub"]):
        at = doc
        for k in path:
            at = at.get(k) if isinstance(at, dict) else None
        if at is not None:
            return at
    if "singleuser" in doc or "hub" in doc:
        return doc
    return {"singleuser": {k: v for k, v in doc.items() if not k.startswith("x-")}}


def config(values):
    """Returns what the chart's own jupyterhub_config.py sets for these values."""
    from traitlets.config import Config

    def get_config(key, default=None):
        v = values
        for k in key.split("."):
            if not isinstance(v, dict) or k not in v:
                return default
            v = v[k]
        return v

    def set_config_if_not_none(parent, name, key):
        if get_config(key) is not None:
            setattr(parent, name, get_config(key))

    module(
        "z2jh", get_config=get_config, set_config_if_not_none=set_config_if_not_none, get_secret_value=lambda *a: "x",
        get_name=lambda n: "default-priority" if n == "priority" else n, get_name_env=lambda n, s: "8081",
    )
    c = Config()
    with open(os.path.join(CHART, "files/hub/jupyterhub_config.py")) as f:
        code = f.read().replace("c = get_config()", "c = C")
    exec(compile(code, "jupyterhub_config.py", "exec"), {"C": c, "__name__": "config", "__file__": os.path.join(CHART, "x")})
    c.JupyterHub = Config()
    return c


async def server(values, case):
    import kubespawner.spawner

    user = mock.MagicMock(id=1, url="/user/" + case["user"] + "/", escaped_name=case["user"])
    user.name = case["user"]
    hub = mock.MagicMock(public_host="", base_url="/hub/", url="http://hub:8081/hub/", api_url="http://hub:8081/hub/api")
    spawner = kubespawner.spawner.KubeSpawner(config=config(values), user=user, hub=hub, _mock=True)
    spawner.oauth_client_id, spawner.oauth_access_scopes, spawner.api_token, spawner.server, spawner.cert_paths = "id", [], "t", None, {}
    spawner.user_options = dict(case.get("options", {}))
    await spawner.load_user_options()
    pod, claim = await spawner.get_pod_manifest(), None
    if spawner.storage_pvc_ensure:
        claim = Api().plain(spawner.get_pvc_manifest())
    return {"name": case["name"], "pod": Api().plain(pod), "claim": claim}


async def run():
    with open(os.path.join(CHART, "values.yaml")) as f:
        chart = yaml.safe_load(f)
    for file in sorted(glob.glob(os.path.join(FOLDER, "*.txtar"))):
        with open(file) as f:
            of = parts(f.read())
        if "cases.json" not in of:
            continue
        values = {}
        for name, text in of.items():
            if name.endswith(".yaml"):
                values = over(values, chart_values(yaml.safe_load(text)))
        values = over(chart, values)
        values["hub"]["extraConfig"] = {}
        made = [await server(copy.deepcopy(values), case) for case in json.loads(of["cases.json"])]
        with open(file.removesuffix(".txtar") + ".kubespawner.json", "w") as f:
            json.dump(made, f, indent=1, sort_keys=True, ensure_ascii=False)
            f.write("\n")


stand_ins()
asyncio.run(run())
