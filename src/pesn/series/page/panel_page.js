// Finds, sorts and pages the rows of the table, and draws their pictures. Without it the table is there whole, without pictures.
(() => {
  "use strict"
  const SIZE = 50 // rows at a time
  const table = document.getElementById("series")
  const body = table.tBodies[0]
  const all = [...body.rows]
  const texts = all.map(row => (row.dataset.s === undefined ? row : row.cells[0]).textContent.toLowerCase()) // a name, or a failure
  const search = document.getElementById("search")
  const status = document.getElementById("status")
  const [first, previous, next, last] = document.querySelectorAll("#pages button")
  let order = all, found = all, page = 0, sorted = null, falling = false

  // A number as people write it: 1,234.5, −2, 3×10⁻⁵; NaN where there is none.
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹"
  const number = text => {
    const plain = text.replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]/g, c => (c === "⁻" ? "-" : digits.indexOf(c))).replace("×10", "e")
    return parseFloat(plain.replace(/,/g, "").replace(/−/g, "-"))
  }

  // Heights 0 … 63 are letters from "?" on; a blank is missing.
  const heights = text => [...text].map(c => (c === " " ? null : c.charCodeAt(0) - 63))
  const draw = row => {
    const cell = row.querySelector(".p")
    if (!cell || cell.firstChild || !row.dataset.s) return
    const [seen, mean, low, high] = row.dataset.s.split("!").map(heights)
    const width = seen.length + mean.length - 1
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
    svg.setAttribute("viewBox", `0 0 ${Math.max(width, 1)} 63`)
    svg.setAttribute("preserveAspectRatio", "none")
    svg.setAttribute("aria-hidden", "true")
    const add = (kind, d) => {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path")
      path.setAttribute("class", kind)
      path.setAttribute("d", d)
      svg.append(path)
    }
    const line = (values, from) => values.map((v, i) =>
      v === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${from + i} ${63 - v}${i + 1 < values.length && values[i + 1] !== null ? "" : "h0"}`).join("")
    const from = seen.length - 1
    const start = seen[from] === null || seen[from] === undefined ? null : seen[from]
    const lead = values => (start === null ? values : [start, ...values])
    const origin = start === null ? from + 1 : from
    const edge = lead(high).map((v, i) => `${origin + i} ${63 - v}`)
    const back = lead(low).map((v, i) => `${origin + i} ${63 - v}`).reverse()
    if (![...low, ...high].includes(null)) add("band", `M${[...edge, ...back].join("L")}Z`)
    add("mean", line(lead(mean), origin))
    add("seen", line(seen, 0))
    cell.append(Object.assign(document.createElement("span"), { className: "plot spark" }))
    cell.firstChild.append(svg)
  }

  // A bar above the weights in words.
  const mix = row => {
    const cell = row.querySelector(".m")
    if (!cell || cell.firstElementChild) return
    const bar = Object.assign(document.createElement("span"), { className: "stacked", ariaHidden: "true" })
    for (const [, kind, share] of cell.textContent.matchAll(/(\S+) (\d+) %/g)) {
      bar.append(Object.assign(document.createElement("i"), { className: kind }))
      bar.lastChild.style.flexGrow = share
    }
    if (bar.firstChild) cell.prepend(bar)
  }

  const show = () => {
    const pages = Math.max(Math.ceil(found.length / SIZE), 1)
    page = Math.min(Math.max(page, 0), pages - 1)
    const part = found.slice(page * SIZE, (page + 1) * SIZE)
    for (const row of part) {
      draw(row)
      mix(row)
    }
    body.replaceChildren(...part)
    const count = n => n.toLocaleString("en")
    const of = found.length === all.length ? count(all.length) : `${count(found.length)} found, of ${count(all.length)}`
    status.textContent = part.length ? `${count(page * SIZE + 1)}–${count(page * SIZE + part.length)} of ${of}` : `none found, of ${count(all.length)}`
    first.disabled = previous.disabled = page === 0
    next.disabled = last.disabled = page === pages - 1
  }

  const select = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean)
    const kept = words.length ? all.filter((row, i) => words.every(word => texts[i].includes(word))) : all
    const chosen = new Set(kept)
    found = order.filter(row => chosen.has(row))
    page = 0
    show()
  }

  const sort = (heading, column, numeric) => {
    falling = sorted === column ? !falling : numeric
    sorted = column
    const value = row => {
      const text = row.cells[column] ? row.cells[column].textContent : ""
      return numeric ? number(text) : text
    }
    const keyed = all.map((row, i) => [value(row), i, row])
    const missing = key => key === "" || Number.isNaN(key)
    keyed.sort(([a, i], [b, j]) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b) || i - j // what is missing comes last, either way
      const less = numeric ? a - b : a.localeCompare(b, "en", { numeric: true })
      return (falling ? -less : less) || i - j
    })
    order = keyed.map(([, , row]) => row)
    for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort")
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending")
    select()
  }

  ;[...table.tHead.rows[0].cells].forEach((heading, column) => {
    if (heading.classList.contains("plain")) return
    const button = document.createElement("button")
    button.append(...heading.childNodes)
    button.addEventListener("click", () => sort(heading, column, heading.classList.contains("n")))
    heading.append(button)
  })
  search.addEventListener("input", select)
  first.addEventListener("click", () => { page = 0; show() })
  previous.addEventListener("click", () => { page -= 1; show() })
  next.addEventListener("click", () => { page += 1; show() })
  last.addEventListener("click", () => { page = Infinity; show() })
  document.getElementById("pages").hidden = all.length <= SIZE
  for (const hidden of document.querySelectorAll("[data-script]")) hidden.hidden = false
  show()
})()
