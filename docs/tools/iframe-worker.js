// Run the search of the site in a frame where the pages are files: browsers refuse workers there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inner = frame.contentWindow
      inner.importScripts = () => {}
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise(resolve => {
        const script = inner.document.createElement("script")
        script.src = url
        script.onload = () => resolve(inner)
        inner.document.body.append(script)
      })
    }

    postMessage(data) {
      this.ready.then(inner => inner.dispatchEvent(new inner.MessageEvent("message", { data })))
    }
  }
}
